"""How much of the machine this process' control groups allow: the smallest limit on the way up wins.

Sources: https://docs.kernel.org/admin-guide/cgroup-v2.html (cpu.max, memory.max), and for v1
https://docs.kernel.org/scheduler/sched-bwc.html (cpu.cfs_quota_us) and
https://docs.kernel.org/admin-guide/cgroup-v1/memory.html (memory.limit_in_bytes).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from hasten.machine.probe import number_in, text_of

_NO_LIMIT = 2**60  # v1 writes "no limit" as the largest multiple of a page, just below 2**63


def quota_cpus(root: Path = Path("/")) -> float | None:
    """The CPU quota in cores, where 1.5 is three CPU seconds in two of wall clock; None for no quota."""
    return min((quota for group in groups_around("cpu", root) if (quota := _quota(group))), default=None)


def memory_limit_bytes(root: Path = Path("/")) -> int | None:
    """The memory limit in bytes; None for no limit."""
    return min((limit for limit, _ in _memory(root)), default=None)


def memory_left_bytes(root: Path = Path("/")) -> int | None:
    """What is left below the memory limit, in bytes; None for no limit.

    Idle page cache counts as unused: the kernel gives it up first, and MemAvailable counts it the same way.
    """
    return min((max(0, limit - used) for limit, used in _memory(root)), default=None)


def _quota(group: Path) -> float | None:
    v1 = f"{text_of(group / 'cpu.cfs_quota_us')} {text_of(group / 'cpu.cfs_period_us')}"
    quota, _, period = (text_of(group / "cpu.max") or v1).partition(" ")  # "max 100000", "-1 100000"
    quota_us, period_us = number_in(quota), number_in(period)
    return quota_us / period_us if quota_us and period_us else None


def _memory(root: Path) -> Iterator[tuple[int, int]]:
    """Limit and use, both in bytes, of every group around this process that has a limit."""
    for group in groups_around("memory", root):
        limit = number_in(text_of(group / "memory.max") or text_of(group / "memory.limit_in_bytes"))
        if limit is not None and limit < _NO_LIMIT:
            used = number_in(text_of(group / "memory.current") or text_of(group / "memory.usage_in_bytes"))
            yield limit, (used or 0) - _idle_cache_bytes(group)


def _idle_cache_bytes(group: Path) -> int:
    """Bytes of files not read lately; v1 counts the groups below separately, as total_inactive_file."""
    words = text_of(group / "memory.stat").split()  # name value name value ...
    counts = dict(zip(words[::2], words[1::2], strict=False))
    return number_in(counts.get("total_inactive_file") or counts.get("inactive_file") or "") or 0


def groups_around(controller: str, root: Path) -> Iterator[Path]:
    """The folders of the groups whose ``controller`` binds this process, its own group first, in v2 and v1.

    A hierarchy may be mounted from a group downwards, as in a container: what lies above is invisible,
    and a mount without our own group says nothing about us.
    """
    own: dict[str, PurePosixPath] = {}  # by controller; "" for v2
    for line in text_of(root / "proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        own.update(dict.fromkeys(controllers.split(","), PurePosixPath(path)))
    # The other v1 controllers' mounts need not be excluded: our controller's files are only in its own.
    ours = {"cgroup": own.get(controller), "cgroup2": own.get("")}
    for line in text_of(root / "proc/self/mountinfo").splitlines():
        mount, _, filesystem = line.partition(" - ")
        top, point = mount.split()[3:5]
        group = ours.get(filesystem.partition(" ")[0])
        if group and ".." not in group.parts and group.is_relative_to(top):
            below = group.relative_to(top)
            for folder in (below, *below.parents):
                yield root / point.lstrip("/") / folder
