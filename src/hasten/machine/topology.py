"""How cores differ: their kind, the cache they share, their nearest memory.

Sources: https://docs.kernel.org/admin-guide/cputopology.html and, in the kernel's Documentation/ABI,
stable/sysfs-devices-system-cpu (cpu_capacity, cpufreq), testing/sysfs-bus-event_source-devices (the
performance counters cpu_core and cpu_atom, which list the CPUs of Intel's two kinds of core).
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from hasten.machine.probe import number_in, numbers_in, text_of
from hasten.records.machine import Node

_AS_FAST = 0.8  # of the fastest core: cores of one kind differ by less, because some boost higher


def efficient_cpus(cpus: Collection[int], root: Path = Path("/")) -> frozenset[int]:
    """The logical CPUs among ``cpus`` that lie on slower cores than the others; empty if all are alike.

    Sources, in this order: Intel's two performance counters, the capacity that ARM's firmware gives each
    core, the highest clock rate.
    """
    counters = root / "sys/devices"
    fast = numbers_in(text_of(counters / "cpu_core/cpus"))
    if fast and text_of(counters / "cpu_atom/cpus"):
        return frozenset(cpus) - frozenset(fast)
    for file in ("cpu_capacity", "cpufreq/cpuinfo_max_freq"):
        told = {cpu: number_in(text_of(root / f"sys/devices/system/cpu/cpu{cpu}/{file}")) for cpu in cpus}
        speeds = {cpu: speed for cpu, speed in told.items() if speed}
        if speeds and len(speeds) == len(told):
            fastest = max(speeds.values())
            slow = frozenset(cpu for cpu, speed in speeds.items() if speed < _AS_FAST * fastest)
            if slow:
                return slow
    return frozenset()


def last_level_cache(cpu: int, root: Path = Path("/")) -> int:
    """The first of the CPUs that share the last-level cache of ``cpu``; 0 if unknown."""
    found = []
    for folder in (root / f"sys/devices/system/cpu/cpu{cpu}/cache").glob("index[0-9]*"):
        level, shared = number_in(text_of(folder / "level")), numbers_in(text_of(folder / "shared_cpu_list"))
        if level and shared and text_of(folder / "type") != "Instruction":
            found.append((level, shared[0]))
    return max(found)[1] if found else 0


def nodes(root: Path = Path("/")) -> tuple[Node, ...]:
    """The NUMA nodes by number, with their memory (of the whole machine); empty if there are none."""
    folders = (root / "sys/devices/system/node").glob("node[0-9]*")
    return tuple(
        Node(number, _memory_bytes(folder))
        for number, folder in sorted((int(folder.name.removeprefix("node")), folder) for folder in folders)
    )


def _memory_bytes(folder: Path) -> int:
    """A node's memory, read from "Node 0 MemTotal:       16738516 kB"."""
    words = text_of(folder / "meminfo").split()
    kib = words[words.index("MemTotal:") + 1] if "MemTotal:" in words else ""
    return 1024 * (number_in(kib) or 0)
