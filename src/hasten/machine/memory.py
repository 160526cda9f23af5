"""How much memory this process may use: the machine's, or its container's if that is less. In bytes."""

from __future__ import annotations

import os
from pathlib import Path

from hasten.machine import container, macos
from hasten.machine.probe import fields_in, number_in, text_of


def total_bytes(root: Path = Path("/")) -> int:
    """All memory without swap; 0 if unknown."""
    return _smallest(
        _meminfo_bytes("MemTotal", root) or number_in(macos.sysctl("hw.memsize")),
        container.memory_limit_bytes(root),
    )


def available_bytes(root: Path = Path("/")) -> int:
    """What is available now without swapping; 0 if unknown."""
    return _smallest(
        _meminfo_bytes("MemAvailable", root) or macos.available_bytes(),
        container.memory_left_bytes(root),
    )


def huge_pages(root: Path = Path("/")) -> str:
    """When the kernel uses transparent huge pages: "always", "madvise", "never"; "" if unknown."""
    told = text_of(root / "sys/kernel/mm/transparent_hugepage/enabled")  # "always [madvise] never"
    return told.partition("[")[2].partition("]")[0]


def shared_left_bytes(root: Path = Path("/")) -> int | None:
    """What processes may still put into /dev/shm; None without such a folder."""
    try:
        found = os.statvfs(root / "dev/shm")
    except OSError:
        return None
    return found.f_bavail * found.f_frsize


def _meminfo_bytes(name: str, root: Path) -> int | None:
    kib = number_in(fields_in(text_of(root / "proc/meminfo")).get(name, "").removesuffix(" kB"))
    return None if kib is None else kib * 1024


def _smallest(*amounts: int | None) -> int:
    return min((amount for amount in amounts if amount is not None), default=0)
