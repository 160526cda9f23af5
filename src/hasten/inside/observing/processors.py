"""How many processors a training keeps busy, how many the worker processes of its loaders, and how many of
its threads wait for one.

Sources: proc(5) for /proc/PID/stat and /proc/PID/task/TID/children, getrusage(2), and the kernel's
Documentation/scheduler/sched-stats.rst for /proc/PID/task/TID/schedstat.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import suppress

from ...records.observation import Processors

_BEGINS = 10  # steps after which it is watched: workers have started then, and made their first batches
_LEAST_SECONDS = 0.1  # ticks are of a hundredth of a second


class ProcessorsUsed:
    """Call ``step_ended`` after each step. Nothing is known where the kernel does not list children."""

    def __init__(self) -> None:
        self._steps = 0
        self._began: tuple[float, float, float, float] | None = None

    def step_ended(self) -> None:
        self._steps += 1
        if self._steps == _BEGINS:
            self._began = _now()

    def found(self) -> Processors | None:
        """Since then, on average."""
        now = _now() if self._began is not None else None
        if self._began is None or now is None or now[0] - self._began[0] < _LEAST_SECONDS:
            return None
        seconds, *used = (after - before for after, before in zip(now, self._began, strict=True))
        own, below, waited = (max(0.0, one / seconds) for one in used)
        return Processors(own, below, 0.0 if _has_other_ranks() else waited)


def _now() -> tuple[float, float, float, float] | None:
    """The clock, the processor time of this process and of those it started, and for how long its threads
    have waited for a processor.
    """
    if sys.platform != "linux":
        return None
    import resource

    try:
        alive = sum(_ticks(number) for number in _children()) / os.sysconf("SC_CLK_TCK")
    except OSError:
        return None
    gone = resource.getrusage(resource.RUSAGE_CHILDREN)
    below = alive + gone.ru_utime + gone.ru_stime
    return time.monotonic(), time.process_time(), below, _waited()


def _has_other_ranks() -> bool:
    """Whether it may be these that its threads wait for: they are no other programs."""
    distributed = sys.modules.get("torch.distributed")
    return distributed is not None and distributed.is_available() and distributed.is_initialized()


def _waited() -> float:
    """Seconds that the living threads of this process could run and did not; 0 where that is not counted."""
    found = 0
    for thread in os.listdir("/proc/self/task"):
        with suppress(OSError), open(f"/proc/self/task/{thread}/schedstat") as file:
            found += int(file.read().split()[1])
    return found / 1e9


def _children() -> Iterator[int]:
    """The living processes that this one started. Raises OSError if the kernel does not list them."""
    for thread in os.listdir("/proc/self/task"):
        with open(f"/proc/self/task/{thread}/children") as file:
            yield from map(int, file.read().split())


def _ticks(process: int) -> int:
    """Of its own and of those it has waited for; 0 if it has just ended."""
    with suppress(FileNotFoundError, ProcessLookupError), open(f"/proc/{process}/stat") as file:
        words = file.read().rpartition(")")[2].split()
        return sum(map(int, words[11:15]))
    return 0
