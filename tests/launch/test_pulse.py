"""A process that is stopped is seen, however deep below the one that was started."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from functools import partial

import pytest

from hasten.launch.pulse import _children, _is_stopped

from ..cli.conftest import wait_until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="by proc(5)")


def _has_children(process: int) -> bool:
    return bool(_children(process))


@pytest.mark.parametrize("depth", [0, 1, 2])
def test_a_stopped_process_is_seen(depth: int) -> None:
    started = subprocess.Popen(["sh", "-c", "sh -c 'sleep 1000; :'; :"], start_new_session=True)
    try:
        line = [started.pid]
        while len(line) < 3:
            wait_until(partial(_has_children, line[-1]))
            line += _children(line[-1])
        assert not _is_stopped(started.pid)
        os.kill(line[depth], signal.SIGSTOP)
        wait_until(lambda: _is_stopped(started.pid))
        os.kill(line[depth], signal.SIGCONT)
        wait_until(lambda: not _is_stopped(started.pid))
    finally:
        os.killpg(started.pid, signal.SIGKILL)
        started.wait()
