"""A process that is stopped is seen, however deep below the one that was started."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

import hasten
from hasten.launch.process_states import ask_where_it_stands, children_of, is_stopped, stack_in
from hasten.launch.tail import Tail

from ..cli.conftest import wait_until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="by proc(5)")

_RANK = """
import time
from hasten.inside.process.stacks import answer
answer()
print("it does", flush=True)
time.sleep(1000)
"""


def _has_children(process: int) -> bool:
    return bool(children_of(process))


@pytest.mark.parametrize("depth", [0, 1, 2])
def test_a_stopped_process_is_seen(depth: int) -> None:
    started = subprocess.Popen(["sh", "-c", "sh -c 'sleep 1000; :'; :"], start_new_session=True)
    try:
        line = [started.pid]
        while len(line) < 3:
            wait_until(partial(_has_children, line[-1]))
            line += children_of(line[-1])
        assert not is_stopped(started.pid)
        os.kill(line[depth], signal.SIGSTOP)
        wait_until(lambda: is_stopped(started.pid))
        os.kill(line[depth], signal.SIGCONT)
        wait_until(lambda: not is_stopped(started.pid))
    finally:
        os.killpg(started.pid, signal.SIGKILL)
        started.wait()


def test_a_stopped_rank_tells_where_it_stands() -> None:
    source = Path(hasten.__file__).parents[1]
    rank = subprocess.Popen(
        [sys.executable, "-c", _RANK],
        env={**os.environ, "PYTHONPATH": str(source)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert rank.stdout is not None
    assert rank.stderr is not None
    tail = Tail(rank.stderr, shown=False)
    try:
        tail.start()
        assert rank.stdout.readline()
        os.kill(rank.pid, signal.SIGSTOP)
        wait_until(lambda: is_stopped(rank.pid))
        assert ask_where_it_stands(rank.pid)
        assert stack_in(tail)[-1].startswith('  File "<string>", line ')  # in the call, or right before it
    finally:
        rank.kill()
        rank.wait()
        tail.finish()
        rank.stdout.close()


def test_a_process_that_would_be_ended_by_it_is_not_asked() -> None:
    other = subprocess.Popen(["sleep", "1000"])
    try:
        assert not ask_where_it_stands(other.pid)
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()
