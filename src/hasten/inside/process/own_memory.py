"""Private memory of this process, and free memory of the machine."""

from __future__ import annotations

import os


def private_bytes() -> int | None:
    """Bytes of memory that only this process uses; None if the system does not report it."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            _, resident, shared, *_ = map(int, file.read().split())
    except (OSError, ValueError):
        return None
    return (resident - shared) * os.sysconf("SC_PAGE_SIZE")


def free_bytes() -> int | None:
    """Free main memory, regardless of this process's limits; None if the system does not report it."""
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            return next(int(line.split()[1]) * 1024 for line in file if line.startswith("MemAvailable:"))
    except (OSError, ValueError, StopIteration):
        return None
