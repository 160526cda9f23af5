"""What each of several ranks gets of one machine: its own cores, and as many threads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from ..errors import UsageError
from ..records.layout import Layout
from ..records.machine import Core, Machine


@dataclass(frozen=True)
class Share:
    """``cores`` is empty if the machine's topology is unknown: then a rank is not bound."""

    cores: tuple[Core, ...]
    threads: int

    @property
    def cpus(self) -> tuple[int, ...]:
        """The logical CPUs to be bound to."""
        return tuple(cpu for core in self.cores for cpu in core.cpus)

    def variables(self, base: Mapping[str, str]) -> dict[str, str]:
        """Variables for the number of torch's threads, unless the user sets them in ``base``."""
        return {} if "OMP_NUM_THREADS" in base else {"OMP_NUM_THREADS": str(self.threads)}

    def part_of(self, machine: Machine) -> Machine:
        """``machine`` as a rank with this share sees it: only its cores, and its part of the quota."""
        if not self.cores:
            return machine
        quota = None if machine.quota_cpus is None else float(self.threads)
        return replace(
            machine,
            cores=self.cores,
            physical_cores=len(self.cores),
            logical_cpus=len(self.cpus),
            quota_cpus=quota,
        )


def shares(machine: Machine, count: int) -> list[Share]:
    """``machine`` in ``count`` shares that differ by one core at most, neighbours on a node staying together.

    Hardware threads of a core stay together, too, unless there are more ranks than cores. Raises UsageError
    if ``count`` is below one or above what can run at once.
    """
    usable = machine.usable_cpus
    if count < 1:
        raise UsageError(f"--nproc-per-node {count}: at least one process is needed")
    if count > usable:
        found = f"there are {usable} CPUs to run on"
        if machine.quota_cpus is not None and usable < machine.logical_cpus:
            found = f"the container's quota is {machine.quota_cpus:g} CPUs"
        raise UsageError(f"--nproc-per-node {count}: {found}, so choose at most {usable}")
    cores = sorted(machine.cores, key=lambda core: (core.socket, core.node, core.cpus))
    if count > len(cores):
        cores = [replace(core, cpus=(cpu,)) for core in cores for cpu in core.cpus]
    whole = [cores[len(cores) * rank // count : len(cores) * (rank + 1) // count] for rank in range(count)]
    return [Share(tuple(part), _threads(len(part), machine, count)) for part in whole]


def shares_of(layout: Layout, machine: Machine) -> list[Share]:
    """What each process of a layout gets: its CPUs, by core, and its threads."""
    return [Share(tuple(_cores_of(frozenset(cpus), machine)), layout.threads) for cpus in layout.cpus]


def _cores_of(cpus: frozenset[int], machine: Machine) -> Iterator[Core]:
    for core in machine.cores:
        mine = tuple(cpu for cpu in core.cpus if cpu in cpus)
        if mine:
            yield replace(core, cpus=mine)


def _threads(cores: int, machine: Machine, count: int) -> int:
    most = cores or max(1, machine.physical_cores // count)
    return most if machine.quota_cpus is None else max(1, min(most, int(machine.quota_cpus) // count))
