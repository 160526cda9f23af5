"""How many processors a training keeps busy, how many the worker processes of its loaders and how many other
programs, and how many of its threads wait for one.

Sources: proc(5) for /proc/stat, /proc/PID/stat and /proc/PID/task/TID/children, getrusage(2), and the
kernel's Documentation/scheduler/sched-stats.rst for /proc/PID/task/TID/schedstat.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator, Set
from contextlib import suppress
from typing import NamedTuple

from ...records.observation import Processors

_BEGINS = 10  # steps after which it is watched: workers have started then, and made their first batches
_LEAST_SECONDS = 0.1  # ticks are of a hundredth of a second
_WORKING = (0, 1, 2, 5, 6)  # of a processor's times: neither idle, waiting for a disk, nor a hypervisor's


class _Read(NamedTuple):
    """In seconds."""

    at: float  # by the clock
    own: float  # processor time of this process so far
    below: float  # of those that it started, and that these started
    busy: float  # of any program, on the processors that we may use
    waited: float  # for which living threads of this process could run and did not


class ProcessorsUsed:
    """Call ``step_ended`` after each step. Nothing is known where the kernel does not list children."""

    def __init__(self) -> None:
        self._steps = 0
        self._began: _Read | None = None
        self._ranks = False
        self._usable: Set[int] = frozenset()  # processors

    def step_ended(self) -> None:
        self._steps += 1
        if self._steps == _BEGINS:
            self._usable = _usable()
            self._began, self._ranks = _now(self._usable), _has_other_ranks()

    def found(self) -> Processors | None:
        """Since then, on average."""
        now = _now(self._usable) if self._began is not None else None
        if self._began is None or now is None or now.at - self._began.at < _LEAST_SECONDS:
            return None
        seconds, *used = (after - before for after, before in zip(now, self._began, strict=True))
        own, below, busy, waited = (max(0.0, one / seconds) for one in used)
        if self._ranks or _has_other_ranks():
            return Processors(own, below)
        return Processors(own, below, waited, max(0.0, busy - own - below))


def _now(usable: Set[int]) -> _Read | None:
    if sys.platform != "linux":
        return None
    import resource

    try:
        alive = sum(map(_ticks, _started_by("self"))) / os.sysconf("SC_CLK_TCK")
    except OSError:
        return None
    gone = resource.getrusage(resource.RUSAGE_CHILDREN)
    below = alive + gone.ru_utime + gone.ru_stime
    return _Read(time.monotonic(), time.process_time(), below, _busy(usable), _waited())


def _has_other_ranks() -> bool:
    """Whether it may be these that its threads wait for: they are no other programs."""
    distributed = sys.modules.get("torch.distributed")
    return distributed is not None and distributed.is_available() and distributed.is_initialized()


def _usable() -> Set[int]:
    """The processors that any thread of this process may use: OpenMP may have bound each to its own."""
    found: set[int] = set()
    if sys.platform == "linux":
        for thread in os.listdir("/proc/self/task"):
            with suppress(OSError):
                found |= os.sched_getaffinity(int(thread))
    return found


def _busy(usable: Set[int]) -> float:
    """Of any program, on these processors; 0 where that is not told."""
    ticks = 0
    with suppress(OSError), open("/proc/stat") as file:
        for name, *times in map(str.split, file):
            if name[:3] == "cpu" and name[3:].isdecimal() and int(name[3:]) in usable:
                ticks += sum(int(times[place]) for place in _WORKING)
    return ticks / os.sysconf("SC_CLK_TCK")


def _waited() -> float:
    """Seconds; 0 where that is not counted."""
    found = 0
    for thread in os.listdir("/proc/self/task"):
        with suppress(OSError), open(f"/proc/self/task/{thread}/schedstat") as file:
            found += int(file.read().split()[1])
    return found / 1e9


def _started_by(process: int | str) -> Iterator[int]:
    """The living processes that it started, and that these started: a fork server's, for example. Raises
    OSError if the kernel does not list them.
    """
    for thread in os.listdir(f"/proc/{process}/task"):
        with open(f"/proc/{process}/task/{thread}/children") as file:
            children = file.read().split()
        for child in map(int, children):
            yield child
            with suppress(FileNotFoundError, ProcessLookupError):  # it has just ended
                yield from _started_by(child)


def _ticks(process: int) -> int:
    """Of its own and of those it has waited for; 0 if it has just ended."""
    with suppress(FileNotFoundError, ProcessLookupError), open(f"/proc/{process}/stat") as file:
        words = file.read().rpartition(")")[2].split()
        return sum(map(int, words[11:15]))
    return 0
