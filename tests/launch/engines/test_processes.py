"""Processes that lead to hosts: how they end together, and that nothing is left."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from hasten.errors import WorkerError
from hasten.launch.engines import processes
from hasten.launch.engines.engine import Start, There
from hasten.launch.engines.processes import Processes
from hasten.records.launch_job import Nodes

from ...patience import PATIENCE_SECONDS
from ...processes import started_with


def python(text: str, host: str = "") -> Start:
    there = There(host, "/", ("true",), {}) if host else None
    return Start((sys.executable, "-c", text), {"LEADS_TO": f"hosts-{id(python)}"}, there)


def left() -> list[int]:
    return started_with("LEADS_TO", f"hosts-{id(python)}")


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    yield
    assert left() == []


def ended(running: Processes) -> int:
    ends_by = time.monotonic() + PATIENCE_SECONDS
    while (code := running.poll()) is None:
        assert time.monotonic() < ends_by
    return code


WAITS = "import sys; sys.stdin.read()"  # as what is at the far end of ssh does


def test_all_end_well() -> None:
    assert ended(Processes([python("pass", "h1"), python("pass", "h2")], Nodes(2, 2))) == 0


def test_one_that_fails_ends_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "GRACE_SECONDS", 0.0)
    running = Processes([python(WAITS, "h1"), python("raise SystemExit(7)", "h2")], Nodes(2, 2))
    assert ended(running) == 7
    assert "h2" in running.label


def test_the_first_failure_that_was_named_is_the_cause() -> None:
    says = "import sys; print('hasten: rank 3 on host h2 failed: no', file=sys.stderr); sys.exit(7)"
    running = Processes([python("raise SystemExit(0)", "h1"), python(says, "h2")], Nodes(2, 2))
    assert ended(running) == 7
    assert running.cause == "rank 3 on host h2 failed: no"


def test_a_host_that_ssh_has_lost_is_named(capfd: pytest.CaptureFixture[str]) -> None:
    running = Processes([python("pass", "h1"), python("raise SystemExit(255)", "h2")], Nodes(2, 2))
    assert ended(running) == 255
    assert running.cause.startswith("ssh does not reach host h2, or has lost it")
    assert running.cause in capfd.readouterr().err


def test_a_host_that_was_told_to_end_is_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "GRACE_SECONDS", 0.0)
    as_ssh = "import sys; sys.stdin.read(); sys.exit(255)"
    running = Processes([python(as_ssh, "h1"), python("raise SystemExit(7)", "h2")], Nodes(2, 2))
    assert ended(running) == 7
    assert running.cause == ""


def test_where_fewer_will_do_the_others_go_on() -> None:
    running = Processes([python("pass", "h1"), python("raise SystemExit(7)", "h2")], Nodes(1, 2))
    assert ended(running) == 0
    assert running.label == "h2"


def test_the_last_of_an_elastic_run_must_end_well() -> None:
    both = [python("raise SystemExit(7)", "h1"), python("raise SystemExit(7)", "h2")]
    assert ended(Processes(both, Nodes(1, 2))) == 7


def test_a_signal_is_told_as_a_shell_tells_it() -> None:
    assert ended(Processes([python("import os; os.kill(os.getpid(), 9)")], Nodes())) == 137


def test_cancelling_ends_what_takes_no_notice(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(processes, "PATIENCE_SECONDS", 0.1)
    ready = tmp_path / "ready"
    stubborn = (
        "import signal, time, pathlib; signal.signal(15, signal.SIG_IGN); "
        f"pathlib.Path({str(ready)!r}).touch(); time.sleep(600)"
    )
    running = Processes([python(stubborn, "h1"), python(WAITS, "h2")], Nodes(2, 2))
    ends_by = time.monotonic() + PATIENCE_SECONDS
    while not ready.exists():
        assert time.monotonic() < ends_by
    running.cancel()
    running.cancel()
    assert left() == []


def test_a_program_that_is_not_there_is_told() -> None:
    with pytest.raises(WorkerError, match="no-such-program could not be started"):
        Processes([python(WAITS, "h1"), Start(("no-such-program",))], Nodes(2, 2))
