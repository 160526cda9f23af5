"""Processes that outlive their parents: the loader workers of a killed rank, programs in sessions of their
own.

Source: prctl(2), PR_SET_CHILD_SUBREAPER; proc(5), /proc/PID/stat.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections import defaultdict
from contextlib import suppress

_SET_CHILD_SUBREAPER = 36


def adopt_orphans() -> None:
    """Become the parent of all our descendants whose own parents end (Linux)."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def end_orphans() -> None:
    """Kill all our children, and those we adopt from them, until none are left."""
    while children := _children().get(os.getpid()):
        for number in children:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(number, signal.SIGKILL)
        for number in children:
            with suppress(ChildProcessError):
                os.waitpid(number, 0)


def end_all_below(number: int) -> None:
    """Kill all descendants of process ``number``, but not the process itself. It must adopt orphans:
    otherwise those whose parents have ended are missed.
    """
    seen: set[int] = set()
    while fresh := _below(number) - seen:  # they may start others while we look
        for child in fresh:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(child, signal.SIGKILL)
        seen |= fresh


def _below(number: int) -> set[int]:
    children, found, waiting = _children(), set[int](), [number]
    while waiting:
        new = [child for child in children.get(waiting.pop(), []) if child not in found]
        found.update(new)
        waiting += new
    return found


def _children() -> dict[int, list[int]]:
    """All processes, zombies included, by their parents; {} without /proc."""
    found = defaultdict(list)
    with suppress(FileNotFoundError):
        for name in os.listdir("/proc"):
            if name.isdecimal():
                with suppress(OSError):
                    found[_parent_of(name)].append(int(name))
    return found


def _parent_of(name: str) -> int:
    with open(f"/proc/{name}/stat", encoding="utf-8", errors="replace") as file:
        return int(file.read().rpartition(")")[2].split()[1])  # state, parent, ...
