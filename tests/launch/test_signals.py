"""Signals as a launcher takes them."""

from __future__ import annotations

import subprocess
import sys

import pytest

from ..patience import PATIENCE_SECONDS

LATE = """
import signal, time
from hasten.launch.signals import Signals
with Signals() as signals:
    signals.alarm(0.001)
    while signal.SIGALRM not in signal.sigpending():
        time.sleep(0.001)
print("goes on")
"""


@pytest.mark.attack("signals")
def test_an_alarm_that_is_not_waited_for_any_more_ends_nothing() -> None:
    """Everything has ended, and what is left of it is cleared away, for longer than the alarm was set to."""
    done = subprocess.run(
        [sys.executable, "-c", LATE], capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False
    )
    assert (done.returncode, done.stdout) == (0, "goes on\n"), done.stderr
