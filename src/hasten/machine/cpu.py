"""The CPUs this process may run on: how many, of which model, with which extensions."""

from __future__ import annotations

import os
import platform
from collections.abc import Collection
from pathlib import Path

from hasten.machine import macos
from hasten.machine.probe import fields_in, number_in, numbers_in, text_of
from hasten.machine.topology import efficient_cpus, last_level_cache
from hasten.records.machine import Core

FLAGS = (
    "avx2",
    "fma",
    "f16c",
    "avx_vnni",
    "avx_ne_convert",
    "avx512f",
    "avx512_vnni",
    "avx512_bf16",
    "avx512_fp16",
    "amx_tile",
    "amx_int8",
    "amx_bf16",
    "amx_fp16",
    "asimd",
    "asimdhp",
    "asimddp",
    "bf16",
    "i8mm",
    "sve",
    "sve2",
    "sme",
)
"""The extensions, as Linux calls them, that decide which kernels torch and oneDNN pick."""

# Linux names no ARM core: (implementer, part) as the register MIDR_EL1 has them, for those people train on
_ARM_CORES = {
    ("0x41", "0xd08"): "Cortex-A72",
    ("0x41", "0xd0b"): "Cortex-A76",
    ("0x41", "0xd42"): "Cortex-A78AE",
    ("0x41", "0xd85"): "Cortex-X925",
    ("0x41", "0xd87"): "Cortex-A725",
    ("0x41", "0xd0c"): "Neoverse-N1",
    ("0x41", "0xd49"): "Neoverse-N2",
    ("0x41", "0xd8e"): "Neoverse-N3",
    ("0x41", "0xd40"): "Neoverse-V1",
    ("0x41", "0xd4f"): "Neoverse-V2",
    ("0x41", "0xd84"): "Neoverse-V3",
    ("0x48", "0xd01"): "Kunpeng-920",
    ("0xc0", "0xac3"): "Ampere-1",
}


def allowed_cpus() -> frozenset[int]:
    """The numbers of the logical CPUs in this process' affinity mask; of all CPUs on macOS."""
    if hasattr(os, "sched_getaffinity"):
        return frozenset(os.sched_getaffinity(0))
    return frozenset(range(os.cpu_count() or 1))


def model(root: Path = Path("/")) -> str:
    """The CPU's name, as "AMD EPYC 9654 96-Core Processor"; several kinds of cores are joined by " + "."""
    names = dict.fromkeys(filter(None, map(_name, _processors(root))))
    return " + ".join(names) or macos.sysctl("machdep.cpu.brand_string") or platform.machine()


def flags(root: Path = Path("/")) -> tuple[str, ...]:
    """Those of ``FLAGS`` that the CPU has, in that order."""
    first = _processors(root)[0]
    has = (first.get("flags") or first.get("Features") or "").split()
    return tuple(flag for flag in FLAGS if flag in has) or macos.flags()


def physical_cores(cpus: Collection[int], root: Path = Path("/")) -> int:
    """How many cores the logical CPUs ``cpus`` lie on; as many as CPUs if unknown."""
    for core_of in (_siblings(cpus, root), _core_ids(root)):
        cores = {core_of.get(cpu, "") for cpu in cpus}
        if "" not in cores:
            return len(cores)
    return min(len(cpus), number_in(macos.sysctl("hw.physicalcpu")) or len(cpus))


def cores(cpus: Collection[int], root: Path = Path("/")) -> tuple[Core, ...]:
    """The cores that the logical CPUs ``cpus`` lie on, by their first CPU; empty if Linux does not report
    them.

    Only hardware threads among ``cpus`` are named. A machine without NUMA nodes is one node.
    """
    for core_of in (_siblings(cpus, root), _core_ids(root)):
        if all(core_of.get(cpu) for cpu in cpus):
            break
    else:
        return ()
    threads: dict[str, list[int]] = {}
    for cpu in sorted(cpus):
        threads.setdefault(core_of[cpu], []).append(cpu)
    sockets, nodes, efficient = _sockets(root), _nodes(root), efficient_cpus(cpus, root)
    return tuple(
        Core(
            cpus=tuple(core),
            socket=_socket(core[0], root, sockets),
            node=nodes.get(core[0], 0),
            cache=last_level_cache(core[0], root),
            efficient=core[0] in efficient,
        )
        for core in threads.values()
    )


def _socket(cpu: int, root: Path, from_cpuinfo: dict[int, int]) -> int:
    told = number_in(text_of(root / f"sys/devices/system/cpu/cpu{cpu}/topology/physical_package_id"))
    return told if told is not None else from_cpuinfo.get(cpu, 0)


def _sockets(root: Path) -> dict[int, int]:
    return {
        int(processor["processor"]): int(processor["physical id"])
        for processor in _processors(root)
        if processor.keys() >= {"processor", "physical id"}
    }


def _nodes(root: Path) -> dict[int, int]:
    """The NUMA node of each CPU."""
    return {
        cpu: int(folder.name.removeprefix("node"))
        for folder in (root / "sys/devices/system/node").glob("node[0-9]*")
        for cpu in numbers_in(text_of(folder / "cpulist"))
    }


def _siblings(cpus: Collection[int], root: Path) -> dict[int, str]:
    """For each CPU, the list of CPUs on its core, which identifies the core."""
    folders = {cpu: root / f"sys/devices/system/cpu/cpu{cpu}/topology" for cpu in cpus}
    return {
        cpu: text_of(folder / "core_cpus_list") or text_of(folder / "thread_siblings_list")
        for cpu, folder in folders.items()
    }


def _core_ids(root: Path) -> dict[int, str]:
    """The same from /proc/cpuinfo; a core's number is unique only within its socket."""
    return {
        int(processor["processor"]): f"{processor['physical id']}:{processor['core id']}"
        for processor in _processors(root)
        if processor.keys() >= {"processor", "physical id", "core id"}
    }


def _processors(root: Path) -> list[dict[str, str]]:
    """/proc/cpuinfo: one mapping for each logical CPU; a single empty one without such a file."""
    return [fields_in(block) for block in text_of(root / "proc/cpuinfo").split("\n\n")]


def _name(processor: dict[str, str]) -> str:
    if "model name" in processor:
        name = " ".join(processor["model name"].split())
        return name if _tells_generation(name) else f"{name}{_generation(processor)}"
    midr = processor.get("CPU implementer", ""), processor.get("CPU part", "")
    return _ARM_CORES.get(midr) or (f"ARM {midr[0]}:{midr[1]}" if all(midr) else "")


def _tells_generation(name: str) -> bool:
    """Hosts of virtual machines may call all generations "AMD EPYC" or "Intel(R) Xeon(R) CPU @ 2.20GHz"."""
    return any(map(str.isdigit, name.partition("@")[0]))


def _generation(processor: dict[str, str]) -> str:
    family, model = processor.get("cpu family", ""), processor.get("model", "")
    return f" (family {family} model {model})" if family and model else ""
