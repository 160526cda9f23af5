"""Processors that a training and the processes it started keep busy."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from hasten.inside.observing import processors
from hasten.inside.observing.processors import ProcessorsUsed, _Read, _usable
from hasten.records.observation import Processors

BUSY = "import sys, time\nwhile time.process_time() < 0.6: pass\nprint('done', flush=True)\n"
SERVING = f"""import subprocess, sys
worker = subprocess.Popen([sys.executable, "-c", {BUSY + "sys.stdin.read()"!r}],
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE)
print(worker.stdout.readline().decode(), flush=True)
"""
COUNTS_WAITING = Path("/proc/self/schedstat").exists()
needs_lists = pytest.mark.skipif(sys.platform != "linux", reason="only Linux lists a process's children")


@needs_lists
@pytest.mark.parametrize("ends", [True, False])
@pytest.mark.parametrize(
    ("begins", "last"), [(BUSY, ""), (SERVING, "worker.communicate()")], ids=["ours", "of a fork server"]
)
def test_what_children_work_is_told_apart_from_what_we_do(begins: str, last: str, ends: bool) -> None:
    used = ProcessorsUsed()
    assert used.found() is None, "nothing is watched before"
    for _ in range(10):
        used.step_ended()
    began, ours = time.monotonic(), time.process_time()
    waits = "" if ends else "sys.stdin.read()\n"
    with subprocess.Popen(
        [sys.executable, "-c", begins + waits + last], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline()
        if ends:
            child.communicate()
        found = used.found()
        seconds, own = time.monotonic() - began, time.process_time() - ours
        assert found is not None
        assert found.workers * seconds > 0.5, "the child worked for 0.6 s"
        assert found.own * seconds < own + 0.2
        child.communicate()


@contextmanager
def busy_program() -> Iterator[subprocess.Popen[bytes]]:
    """One that keeps a processor busy."""
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as other:
        try:
            yield other
        finally:
            other.kill()


@needs_lists
@pytest.mark.skipif(not COUNTS_WAITING, reason="this kernel does not count what threads wait (schedstat)")
@pytest.mark.parametrize("ranks", [False, True])
def test_threads_without_a_processor_wait(ranks: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two processes have one between them."""
    monkeypatch.setattr("torch.distributed.is_initialized", lambda: ranks)
    mine = os.sched_getaffinity(0)
    one = {min(mine)}
    used = ProcessorsUsed()
    try:
        os.sched_setaffinity(0, one)
        with busy_program() as other:
            for _ in range(10):
                used.step_ended()
            if ranks:
                monkeypatch.setattr("torch.distributed.is_initialized", lambda: False)
            began = time.process_time()
            while time.process_time() - began < 0.5:
                pass
            found = used.found()
            assert other.poll() is None
    finally:
        os.sched_setaffinity(0, mine)
    assert found is not None
    if ranks:
        assert (found.waiting, found.others) == (0.0, 0.0), "it may be another rank, which has ended by now"
        return
    assert found.waiting > 0.25
    assert found.own + found.waiting == pytest.approx(1.0, abs=0.2)


def test_what_is_neither_ours_nor_of_what_we_started_is_other_programs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reads = iter([_Read(10.0, 1.0, 2.0, 100.0, 3.0), _Read(18.0, 7.0, 4.0, 116.0, 4.0)])
    monkeypatch.setattr(processors, "_now", lambda usable: next(reads))
    used = ProcessorsUsed()
    for _ in range(10):
        used.step_ended()
    assert used.found() == Processors(own=0.75, workers=0.25, waiting=0.125, others=1.0)


@needs_lists
def test_a_bound_thread_may_use_one_processor_and_the_process_all() -> None:
    """As OMP_PROC_BIND binds them: what others take from any of its processors counts."""
    mine = os.sched_getaffinity(0)
    if len(mine) < 2:
        pytest.skip("needs two processors")
    asked, done = threading.Event(), threading.Event()

    def unbound() -> None:
        asked.set()
        done.wait()

    thread = threading.Thread(target=unbound)
    thread.start()
    asked.wait()
    try:
        os.sched_setaffinity(0, {min(mine)})
        assert _usable() == mine
    finally:
        os.sched_setaffinity(0, mine)
        done.set()
        thread.join()


def test_what_is_too_short_to_tell_is_not_told() -> None:
    used = ProcessorsUsed()
    for _ in range(10):
        used.step_ended()
    assert used._began is not None
    used._began = used._began._replace(at=time.monotonic())
    assert used.found() is None
