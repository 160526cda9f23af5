"""The report of ``hasten doctor``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ..records.diagnosis import Finding, TorchBuild
from ..records.machine import Machine
from ..units import counted

if TYPE_CHECKING:
    from rich.console import Console


def print_doctor(machine: Machine, torch: TorchBuild, findings: Sequence[Finding], console: Console) -> None:
    """The machine, what slows training down, and what is good to know."""
    gib = 2**30
    quota = f", quota of {machine.quota_cpus:g} CPUs" if machine.quota_cpus else ""
    counts = f"{counted(machine.physical_cores, 'core')}, {counted(machine.logical_cpus, 'thread')}"
    parts = ", ".join([counts, *_parts(machine)])
    memory = f"{machine.available_bytes / gib:.1f} of {machine.memory_bytes / gib:.1f} GiB free"
    built = f"CUDA {torch.cuda}" if torch.cuda else f"ROCm {torch.rocm}" if torch.rocm else "CPUs"
    facts = {
        "CPU": f"{machine.cpu_model}: {parts}{quota}",
        "instructions": ", ".join(machine.cpu_flags) or "none that matter",
        "memory": memory,
        "GPUs": ", ".join(machine.accelerators) or "none",
        "system": f"{machine.system} {machine.architecture}, {machine.libc or 'unknown C library'}",
        "Python": machine.python,
        "torch": f"{torch.version}, built for {built}" if torch.version else "not installed",
    }
    for name, value in facts.items():
        console.print(f"{name:>12}  {value}")
    for heading, hinders in (("What slows training down:", True), ("Good to know:", False)):
        chosen = [finding for finding in findings if finding.hinders is hinders]
        if not chosen and not hinders:
            continue
        console.print(f"\n{heading}" + ("" if chosen else " nothing found"), style="bold")
        for finding in chosen:
            console.print(f"  {finding.text}")
            if finding.advice:
                console.print(f"      {finding.advice}")


def _parts(machine: Machine) -> Iterator[str]:
    """How the cores are divided, if they are."""
    for noun, count in (
        ("sockets", len({core.socket for core in machine.cores})),
        ("NUMA nodes", len({core.node for core in machine.cores})),
        ("last-level caches", len({core.cache for core in machine.cores})),
    ):
        if count > 1:
            yield f"{count} {noun}"
    slow = sum(core.efficient for core in machine.cores)
    if slow:
        yield f"{counted(slow, 'core')} slower than the others"
