"""The threads that OpenMP keeps between two operators."""

from __future__ import annotations

import ctypes
import os
import sys

_SOFT = 1  # omp_pause_soft: settings stay
_forked = False  # from a process that had torch: its pool's threads are not in this one


def end_idle_threads() -> None:
    """End this thread's pool; its next parallel operator starts another one in a millisecond. Threads that
    were told to wait awake would take the cores from child processes. Intel's runtime lets them sleep.

    Does nothing with a runtime older than OpenMP 5.0 and in a forked process, where libgomp would wait for
    threads that it does not have.

    Source: OpenMP 5.0, omp_pause_resource_all; libgomp's team.c, gomp_pause_host.
    """
    pause = getattr(ctypes.CDLL(None), "omp_pause_resource_all", None)
    if pause is not None and not _forked and _has_several_threads():
        pause(_SOFT)


def _has_several_threads() -> bool:
    try:
        return len(os.listdir("/proc/self/task")) > 1
    except OSError:  # not Linux
        return True


def _note_fork() -> None:
    global _forked
    _forked = _forked or "torch" in sys.modules


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_note_fork)
