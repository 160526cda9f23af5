"""The threads that OpenMP keeps between two operators."""

from __future__ import annotations

import ctypes

_SOFT = 1  # omp_pause_soft: settings stay


def end_idle_threads() -> None:
    """End this thread's pool; its next parallel operator starts another one in a millisecond. Threads that
    were told to wait awake would take the cores from child processes.

    Does nothing with a runtime older than OpenMP 5.0, or on GPU-only builds that load none.

    Source: OpenMP 5.0, omp_pause_resource_all.
    """
    pause = getattr(ctypes.CDLL(None), "omp_pause_resource_all", None)
    if pause is not None:
        pause(_SOFT)
