"""Real workers that end in every way they can: each must be distinguished, and none may stay behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from hasten.bench.workers import process
from hasten.bench.workers.ending import ScriptEnded, ScriptOver, script_error
from hasten.bench.workers.process import WorkerProcess
from hasten.bench.workers.worker_output import keep_ends
from hasten.errors import Refusal, ScriptError, WorkerError
from tests.bench.made_up import step
from tests.bench.real_workers import (
    PLAIN,
    children,
    descendants,
    first_output,
    has_ended,
    one_thread,
    trials_for,
)

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks into /proc")


def end_of(folder: Path, source: str, *arguments: str) -> ScriptOver:
    with (
        trials_for(folder, source, *arguments) as trials,
        trials.worker() as worker,
        pytest.raises(ScriptOver) as over,
    ):
        worker.wait_started()
    return over.value


def test_a_script_that_runs_to_its_end_has_completed(tmp_path: Path) -> None:
    assert end_of(tmp_path, "print('nothing to train')").ended.how == "completed"
    assert (tmp_path / "output/worker-001.stdout").read_text() == "nothing to train\n"


@pytest.mark.parametrize("leave", ["sys.exit(0)", "sys.exit()", "raise SystemExit(None)"])
def test_an_exit_without_an_error_has_completed(tmp_path: Path, leave: str) -> None:
    assert end_of(tmp_path, f"import sys\n{leave}").ended.how == "completed"


def test_an_exit_code_is_told(tmp_path: Path) -> None:
    over = end_of(tmp_path, "import sys\nsys.exit(int(sys.argv[1]))", "3")
    assert (over.ended.how, over.ended.detail) == ("exit", "3")
    assert str(over) == "the script ended with exit code 3"
    error = script_error(over.ended, "train.py")
    assert isinstance(error, ScriptError)
    assert "train.py stopped by itself with exit code 3" in str(error)


def test_an_error_is_told_with_the_scripts_own_frames_only(tmp_path: Path) -> None:
    over = end_of(tmp_path, "def load():\n    raise FileNotFoundError('no data here')\nload()\n")
    assert over.ended.how == "raised"
    assert str(over) == "the script raised FileNotFoundError: no data here"
    assert "train.py" in over.ended.detail
    assert "hasten" not in over.ended.detail
    assert "no data here" in str(script_error(over.ended, "train.py"))


def test_steps_are_told_and_so_is_where_the_script_ended(tmp_path: Path) -> None:
    seven_steps = PLAIN.replace("Pictures()", "Pictures(), steps=7")
    with trials_for(tmp_path, seven_steps) as trials, trials.worker() as worker:
        worker.wait_started()
        assert len(worker.steps(4)) == 4
        with pytest.raises(ScriptOver) as over:
            worker.steps(4)
    assert len(over.value.ended.steps) == 2
    assert len(worker.history) == 5
    assert all(taken.samples == 8 for taken in worker.history)


def test_what_comes_after_the_last_step_is_told_up_to_the_end_of_the_process(tmp_path: Path) -> None:
    later = "    import atexit\n    time.sleep(0.2)\n    atexit.register(time.sleep, 0.3)\n"
    with (
        trials_for(tmp_path, PLAIN.replace("Pictures()", "Pictures(), steps=7") + later) as trials,
        trials.worker() as worker,
    ):
        worker.wait_started()
        with pytest.raises(ScriptOver) as over:
            worker.steps(20)
    rest = over.value.ended.rest
    assert rest is not None
    assert rest.seconds >= 0.5
    assert (rest.evaluations, rest.restarts) == (0, 0)


def test_a_worker_killed_between_two_requests_is_an_error_with_a_message(tmp_path: Path) -> None:
    before = children()
    with trials_for(tmp_path, PLAIN) as trials, trials.worker() as worker:
        worker.wait_started()
        (pid,) = children() - before
        everything = {pid} | descendants(pid)
        os.killpg(pid, signal.SIGKILL)
        assert all(has_ended(process) for process in everything)
        with pytest.raises(WorkerError, match="killed by SIGKILL"):
            worker.steps(1)
        with pytest.raises(WorkerError, match="killed by SIGKILL"):
            worker.proofs()


def test_a_worker_that_kills_itself_is_an_error_with_a_message(tmp_path: Path) -> None:
    source = "import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)"
    with (
        trials_for(tmp_path, source) as trials,
        trials.worker() as worker,
        pytest.raises(WorkerError, match="killed by SIGSEGV while reaching its first training step"),
    ):
        worker.wait_started()


def test_a_script_that_leaves_without_a_word_is_an_error_with_its_code(tmp_path: Path) -> None:
    with (
        trials_for(tmp_path, "import os\nos._exit(7)") as trials,
        trials.worker() as worker,
        pytest.raises(WorkerError, match="exit code 7"),
    ):
        worker.wait_started()


def test_a_silent_script_seems_to_hang(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Patience grows with the slowest step so far."""
    monkeypatch.setattr(process, "SILENCE_SECONDS", 0.2)
    with trials_for(tmp_path, "import time\ntime.sleep(1000)") as trials, trials.worker() as worker:
        with pytest.raises(WorkerError, match="silent for 2 s while reaching its first training step"):
            worker.wait_started(timeout=2.0)
        assert isinstance(worker, WorkerProcess)
        worker.history += [step(0.001), step(0.01)]
        with pytest.raises(WorkerError, match="silent for 1 s while training 4 steps: it seems to hang"):
            worker.steps(4)


def test_of_an_output_too_long_both_ends_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "worker-001.stdout"
    path.write_bytes(b"a" * 900 + b"b" * 900)
    keep_ends(path, most=1000)
    assert path.read_bytes() == b"a" * 500 + b"\n[hasten left 800 bytes out here]\n" + b"b" * 500
    keep_ends(path, most=2000)
    assert path.stat().st_size == 1000 + 34
    keep_ends(tmp_path / "none")


def test_a_stopped_workers_output_is_shortened(tmp_path: Path) -> None:
    source = "print('x' * 3_000_000, flush=True)\nimport time\ntime.sleep(1000)"
    with trials_for(tmp_path, source) as trials, trials.worker():
        while len(first_output(tmp_path)) < 3_000_000:
            time.sleep(0.01)
    assert (tmp_path / "output/worker-001.stdout").stat().st_size < 2**20 + 100


FORKS = """
    import os, time
    child = os.fork()
    if child == 0:
        time.sleep(1000)
    print(child, flush=True)
    {then}
"""


@pytest.mark.parametrize("then", ["time.sleep(1000)", "os._exit(0)"])
def test_what_a_script_has_forked_ends_with_it(tmp_path: Path, then: str) -> None:
    before = children()
    with trials_for(tmp_path, FORKS.format(then=then)) as trials, trials.worker():
        assert first_output(tmp_path)
        started = descendants(os.getpid()) - before
    assert started
    assert all(has_ended(process) for process in started)
    assert children() == before


COORDINATOR = """
import sys, time
from pathlib import Path
from tests.bench.real_workers import descendants, first_output, trials_for
import os

folder = Path(sys.argv[1])
with trials_for(folder, sys.argv[2]) as trials, trials.worker() as worker:
    first_output(folder)
    print(*descendants(os.getpid()), flush=True)
    time.sleep(1000)
"""


def test_a_worker_and_what_it_forked_end_with_a_coordinator_that_was_killed(tmp_path: Path) -> None:
    argv = [sys.executable, "-c", COORDINATOR, str(tmp_path), FORKS.format(then="time.sleep(1000)")]
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    environment = {**one_thread(), "TMPDIR": str(temporary)}
    with subprocess.Popen(argv, stdout=subprocess.PIPE, env=environment) as coordinator:
        assert coordinator.stdout is not None
        try:
            started = coordinator.stdout.readline().split()
        finally:
            coordinator.kill()
    assert len(started) == 5, "the worker in three, what it forked, and what clears away behind all of them"
    assert all(has_ended(int(process)) for process in started)
    assert list(temporary.iterdir()) == []


def test_a_stopped_worker_can_be_ended(tmp_path: Path) -> None:
    before = children()
    with trials_for(tmp_path, "import time\ntime.sleep(1000)") as trials, trials.worker() as worker:
        worker.pause()
    assert children() == before


def test_without_protection_the_script_is_not_started(tmp_path: Path) -> None:
    with (
        trials_for(tmp_path, "print('started')", folders=("/proc",)) as trials,
        trials.worker() as worker,
        pytest.raises(Refusal, match="--allow-writes"),
    ):
        worker.wait_started()
    assert (tmp_path / "output/worker-001.stdout").read_text() == ""


def test_without_protection_it_is_started_where_the_user_allows_writes(tmp_path: Path) -> None:
    with trials_for(tmp_path, "print('started')", folders=("/proc",), protect=False) as trials:
        with trials.worker() as worker, pytest.raises(ScriptOver):
            worker.wait_started()
        assert worker.protection == "off"
    assert (tmp_path / "output/worker-001.stdout").read_text() == "started\n"


def test_a_gpu_that_is_not_there_is_explained() -> None:
    ended = ScriptEnded("raised", "AssertionError: Torch not compiled with CUDA enabled\n", (), ())
    assert "device that follows the machine" in str(script_error(ended, "train.py"))
    ended = ScriptEnded("raised", "ValueError: wrong shape\n", (), ())
    assert "device that follows the machine" not in str(script_error(ended, "train.py"))
