"""A process that is stopped is seen, however deep below the one that was started."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from functools import partial

import pytest

from hasten.launch.process_states import children_of, is_stopped

from ..cli.conftest import wait_until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="by proc(5)")


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
