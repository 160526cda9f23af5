"""Read how long the processors worked, and for which processes.

Sources: proc(5) for /proc/stat, /proc/PID/stat and /proc/PID/task/TID/children;
https://docs.kernel.org/admin-guide/cgroup-v2.html for cpu.stat, and for that of v1
https://docs.kernel.org/scheduler/sched-bwc.html.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Set
from contextlib import suppress
from pathlib import Path

from hasten.machine.container import groups_around
from hasten.machine.probe import number_in, text_of
from hasten.records.processor_time import ProcessorTime

_ROOT = Path("/")
_IDLE = (3, 4)  # of a line's numbers: idle, and waiting for a disk
_STOLEN = 7
_KNOWN = 8  # numbers we use: the rest count guests, whose time is in the first already


def processor_time(root: Path = _ROOT, process: int | None = None) -> ProcessorTime | None:
    """A reading of now, of ``process`` (None: ours) and all below it; None if unknown."""
    ticks = _busy_ticks(root, _allowed())
    own = _ticks_of(root, os.getpid() if process is None else process)
    if ticks is None or own is None:
        return None
    tick = 1 / os.sysconf("SC_CLK_TCK")
    busy, stolen = ticks
    return ProcessorTime(
        time.monotonic(), busy * tick, own * tick, stolen * tick, throttled=_throttled_seconds(root)
    )


def allowed_cpus() -> int:
    """How many CPUs we may run on."""
    return len(_allowed()) or os.cpu_count() or 1


def _allowed() -> Set[int]:
    return os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set()


def _busy_ticks(root: Path, cpus: Set[int]) -> tuple[int, int] | None:
    """Busy ticks of ``cpus`` since boot, and how many of them a hypervisor stole."""
    found, busy, stolen = False, 0, 0
    for line in text_of(root / "proc/stat").splitlines():
        name, *words = line.split() or [""]
        if not name.startswith("cpu"):
            break
        if number_in(name[3:]) in cpus:
            numbers = [number_in(word) or 0 for word in words[:_KNOWN]]
            busy += sum(n for place, n in enumerate(numbers) if place not in _IDLE)
            stolen += sum(numbers[_STOLEN:])
            found = True
    return (busy, stolen) if found else None


def _ticks_of(root: Path, process: int) -> int | None:
    """Ticks of a process and all below it, and of what they waited for; None if the kernel does not list
    children.
    """
    if not list(_lists_of_children(root, process)):
        return None
    ticks, waiting = 0, [process]
    while waiting:
        number = waiting.pop()
        after_name = text_of(root / f"proc/{number}/stat").rpartition(")")[2].split()
        ticks += sum(number_in(word) or 0 for word in after_name[11:15])  # user, system, and of children
        for path in _lists_of_children(root, number):
            waiting += [child for word in text_of(path).split() if (child := number_in(word)) is not None]
    return ticks


def _lists_of_children(root: Path, process: int) -> Iterator[Path]:
    """One for each thread: any of them may have started children."""
    with suppress(OSError):
        for thread in os.listdir(root / f"proc/{process}/task"):
            path = root / f"proc/{process}/task/{thread}/children"
            if path.exists():
                yield path


def _throttled_seconds(root: Path) -> float:
    """Seconds for which the quota stopped us, of the surrounding group that was stopped the longest."""
    longest = 0.0
    for group in groups_around("cpu", root):
        words = text_of(group / "cpu.stat").split()
        named = dict(zip(words[::2], words[1::2], strict=False))
        microseconds, nanoseconds = (
            number_in(named.get("throttled_usec", "")),
            number_in(named.get("throttled_time", "")),
        )
        longest = max(longest, (microseconds or 0) / 1e6, (nanoseconds or 0) / 1e9)
    return longest
