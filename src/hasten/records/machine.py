"""What this machine is, as far as training speed depends on it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Core:
    """One physical core: the numbers of its hardware threads that the process may use, and where it lies."""

    cpus: tuple[int, ...]
    socket: int = 0
    node: int = 0  # NUMA node
    cache: int = 0  # the first CPU of all those that share its last-level cache; 0 if unknown
    efficient: bool = False  # one of the slower cores of a processor that has two kinds


@dataclass(frozen=True)
class Node:
    """A NUMA node: its cores reach its memory faster than that of other nodes."""

    number: int
    memory_bytes: int  # 0 for a node of cores alone


@dataclass(frozen=True)
class GpuLinks:
    """How each of at least two GPUs reaches each other, as a square, in nvidia-smi's terms: "NV18" by 18
    NVLinks, "PIX" and "PXB" by one and several PCIe switches, "PHB" through a CPU's PCIe bridge, "NODE" and
    "SYS" through the interconnect within a NUMA node and between them; "X" on the diagonal.
    """

    table: tuple[tuple[str, ...], ...]

    def pairs(self) -> dict[str, tuple[tuple[int, int], ...]]:
        """The pairs of GPUs, by their numbers, for each kind of link."""
        found: dict[str, list[tuple[int, int]]] = {}
        for first, row in enumerate(self.table):
            for second in range(first + 1, len(row)):
                found.setdefault(row[second], []).append((first, second))
        return {kind: tuple(pairs) for kind, pairs in found.items()}


@dataclass(frozen=True)
class Machine:
    """One machine, or the part of it that this process may use.

    ``logical_cpus`` and ``physical_cores`` count what the process' affinity mask allows; ``quota_cpus`` is
    the container's CPU quota in cores (None without one); memory is in bytes, container limits included.
    ``environment`` holds the user's variables that affect speed (OMP_NUM_THREADS, LD_PRELOAD, ...), which
    always win over a technique. ``cores`` is empty if the topology is unknown, ``nodes`` if there is no NUMA.
    ``libraries`` maps a kind of library (jemalloc, libiomp5) to its file here.
    """

    system: str  # "Linux", "Darwin"
    architecture: str  # "x86_64", "aarch64"
    cpu_model: str
    logical_cpus: int
    physical_cores: int
    quota_cpus: float | None
    memory_bytes: int
    available_bytes: int
    cpu_flags: tuple[str, ...]  # those that matter: avx2, avx512f, avx512_bf16, amx_bf16, bf16 (ARM), ...
    libc: str  # "glibc 2.36", "musl", ""
    python: str  # "3.11.7"
    accelerators: tuple[str, ...] = ()
    cxx: str = ""  # the C++ compiler that torch.compile would call, "" for none
    environment: Mapping[str, str] = field(default_factory=dict)
    cores: tuple[Core, ...] = ()
    nodes: tuple[Node, ...] = ()
    libraries: Mapping[str, str] = field(default_factory=dict)
    packages: Mapping[str, str] = field(default_factory=dict)  # versions of those that a technique may load
    huge_pages: str = ""  # when the kernel uses transparent ones: "always", "madvise", "never", "" unknown

    @property
    def identity(self) -> str:
        """Equal for machines where a plan's numbers still hold."""
        quota = f", quota {self.quota_cpus:g}" if self.quota_cpus else ""
        gpus = f", {', '.join(self.accelerators)}" if self.accelerators else ""
        gib = round(self.memory_bytes / 2**30)
        cpu = f"{self.cpu_model}, {self.physical_cores} cores{quota}"
        return f"{cpu}, {gib} GiB, {self.system} {self.architecture}{gpus}"

    @property
    def whole_cpus(self) -> int:
        """CPUs that can run all the time: a quota's fraction of a CPU is stopped now and then; at
        least 1.
        """
        if self.quota_cpus is None:
            return self.logical_cpus
        return max(1, min(self.logical_cpus, int(self.quota_cpus)))

    @property
    def usable_cpus(self) -> int:
        """Cores that can run at once: the affinity mask or the quota, whichever is smaller; at least 1."""
        if self.quota_cpus is None:
            return self.logical_cpus
        return max(1, min(self.logical_cpus, int(self.quota_cpus + 0.5)))
