"""Who used the processors, read from copies of what the kernel writes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from hasten.machine import processor_time as module
from hasten.machine.processor_time import processor_time

TICK = 1 / os.sysconf("SC_CLK_TCK")


def proc(root: Path, stat: str, processes: dict[int, tuple[str, dict[int, str]]]) -> Path:
    """``processes``: by number, the ticks "user system of-children's-user of-children's-system", and for each
    thread its children.
    """
    folder = root / "proc"
    folder.mkdir()
    (folder / "stat").write_text(stat)
    for number, (ticks, threads) in processes.items():
        (folder / f"{number}/task").mkdir(parents=True)
        (folder / f"{number}/stat").write_text(
            f"{number} (a) b (c)) S 1 1 1 0 -1 4194304 9 9 9 9 {ticks} 20 0 1"
        )
        for thread, children in threads.items():
            (folder / f"{number}/task/{thread}").mkdir()
            (folder / f"{number}/task/{thread}/children").write_text(children)
    return root


ONE = {7: ("10 5 2 1", {7: ""})}
STAT = "cpu  1 1 1 1 1 1 1 1 0 0\ncpu0 100 10 20 1000 50 1 2 30 99 0\ncpu1 200 0 0 5 5 0 0 0 0 0\nintr 1 2\n"


@pytest.mark.attack("truth")
@pytest.mark.parametrize(
    ("cpus", "busy", "stolen"),
    [({0}, 163, 30), ({1}, 200, 0), ({0, 1}, 363, 30), ({0, 5}, 163, 30)],  # waiting for a disk is not busy
)
def test_all_but_idle_time_counts_of_the_cpus_that_we_may_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cpus: set[int], busy: int, stolen: int
) -> None:
    """What a hypervisor took away counts, too; what a guest used is there twice."""
    monkeypatch.setattr(module, "_allowed", lambda: cpus)
    found = processor_time(proc(tmp_path, STAT, ONE), 7)
    assert found is not None
    assert found.busy == pytest.approx(busy * TICK)
    assert found.stolen == pytest.approx(stolen * TICK)


@pytest.mark.attack("truth")
@pytest.mark.parametrize(
    ("processes", "own"),
    [
        (ONE, 18),
        ({7: ("10 5 2 1", {7: "8 "}), 8: ("100 0 0 0", {8: ""})}, 118),
        ({7: ("1 0 0 0", {7: "", 70: "8"}), 8: ("10 0 0 0", {8: "9"}), 9: ("100 0 0 0", {9: ""})}, 111),
        ({7: ("1 0 0 0", {7: "8 9"}), 8: ("10 0 0 0", {8: ""})}, 11),  # one of them has just ended
        ({**ONE, 9: ("1000 0 0 0", {9: ""})}, 18),  # not below us
    ],
)
def test_ours_is_what_is_below_us_whichever_thread_started_it(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    processes: dict[int, tuple[str, dict[int, str]]],
    own: int,
) -> None:
    monkeypatch.setattr(module, "_allowed", lambda: {0})
    found = processor_time(proc(tmp_path, STAT, processes), 7)
    assert found is not None
    assert found.own == pytest.approx(own * TICK)


@pytest.mark.attack("processors")
@pytest.mark.parametrize("stat", ["", "cpu  1 1 1 1 1 1 1 1 0 0\n", "intr 5\n", "cpu0\n"])
def test_a_system_that_does_not_tell_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stat: str
) -> None:
    monkeypatch.setattr(module, "_allowed", lambda: {1})
    assert processor_time(proc(tmp_path, stat, ONE), 7) is None


@pytest.mark.attack("processors")
def test_a_kernel_that_does_not_list_children_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_allowed", lambda: {0})
    assert processor_time(proc(tmp_path, STAT, {7: ("1 1 1 1", {})}), 7) is None
    assert processor_time(tmp_path / "nowhere", 7) is None


@pytest.mark.attack("processors")
@pytest.mark.parametrize(
    ("written", "seconds"),
    [
        ("usage_usec 5\nnr_throttled 3\nthrottled_usec 2500000\n", 2.5),
        ("nr_periods 9\nnr_throttled 3\nthrottled_time 1500000000\n", 1.5),
        ("nr_periods 0\n", 0.0),
        ("", 0.0),
    ],
)
def test_a_quota_that_stopped_us_is_told_by_both_kinds_of_groups(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written: str, seconds: float
) -> None:
    monkeypatch.setattr(module, "_allowed", lambda: {0})
    (tmp_path / "group").mkdir()
    (tmp_path / "group/cpu.stat").write_text(written)
    monkeypatch.setattr(module, "groups_around", lambda *_: [tmp_path / "group"])
    found = processor_time(proc(tmp_path, STAT, ONE), 7)
    assert found is not None
    assert found.throttled == seconds


@pytest.mark.skipif(
    not Path(f"/proc/self/task/{os.getpid()}/children").exists(), reason="no lists of children here"
)
def test_what_our_child_computes_is_ours() -> None:
    before = processor_time()
    subprocess.run([sys.executable, "-c", "sum(range(10**7))"], check=True)
    after = processor_time()
    assert before is not None
    assert after is not None
    assert after.own - before.own > 0.05
