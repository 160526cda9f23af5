"""Processes that ranks started and did not end: loaders' workers of a rank that was killed, say.

Source: prctl(2), PR_SET_CHILD_SUBREAPER; proc(5), /proc/PID/stat.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

_SET_CHILD_SUBREAPER = 36


def adopt_orphans() -> None:
    """Become the parent of all below us whose own parents end (Linux)."""
    if sys.platform == "linux":
        libc: Any = ctypes.CDLL(None, use_errno=True)
        libc.prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def end_orphans() -> None:
    """Kill all our children, and what they leave to us in turn, until there are none."""
    while children := _children():
        for number in children:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(number, signal.SIGKILL)
        for number in children:
            with suppress(ChildProcessError):
                os.waitpid(number, 0)


def _children() -> list[int]:
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            fields = (entry / "stat").read_text().rpartition(")")[2].split()  # state, parent, ...
            if int(fields[1]) == os.getpid():
                found.append(int(entry.name))
    return found
