from __future__ import annotations

import platform
from pathlib import Path

import pytest

from hasten.machine import memory

from .conftest import Record

MIB = 2**20
MEMINFO = {"proc/meminfo": "MemTotal:       65536 kB\nMemFree:         1024 kB\nMemAvailable:   32768 kB\n"}


def limited(limit_bytes: int, used_bytes: int) -> dict[str, str]:
    return {
        "proc/self/cgroup": "0::/\n",
        "proc/self/mountinfo": "31 23 0:28 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
        "sys/fs/cgroup/memory.max": f"{limit_bytes}\n",
        "sys/fs/cgroup/memory.current": f"{used_bytes}\n",
    }


def test_the_machines_memory_is_in_bytes(record: Record) -> None:
    root = record(MEMINFO)
    assert (memory.total_bytes(root), memory.available_bytes(root)) == (64 * MIB, 32 * MIB)


def test_a_smaller_container_limit_wins(record: Record) -> None:
    root = record(MEMINFO | limited(16 * MIB, 12 * MIB))
    assert (memory.total_bytes(root), memory.available_bytes(root)) == (16 * MIB, 4 * MIB)


def test_a_limit_above_what_the_machine_has_does_not_count(record: Record) -> None:
    root = record(MEMINFO | limited(999 * MIB, 0))
    assert (memory.total_bytes(root), memory.available_bytes(root)) == (64 * MIB, 32 * MIB)


def test_unknown_memory_is_zero(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "system", lambda: "Linux")
    assert (memory.total_bytes(tmp_path), memory.available_bytes(tmp_path)) == (0, 0)


@pytest.mark.parametrize(
    ("told", "when"),
    [("always [madvise] never\n", "madvise"), ("[always] madvise never\n", "always"), ("", "")],
)
def test_when_there_are_huge_pages(record: Record, told: str, when: str) -> None:
    assert memory.huge_pages(record({"sys/kernel/mm/transparent_hugepage/enabled": told})) == when


def test_what_is_left_of_shared_memory(record: Record) -> None:
    root = record({"dev/shm/taken": "x"})
    left = memory.shared_left_bytes(root)
    assert left is not None
    assert left > 0
    assert memory.shared_left_bytes(root / "nowhere") is None
