"""How a training is laid out on a machine: processes, their threads, and the CPUs of each."""

from __future__ import annotations

from dataclasses import dataclass

from .plan import Settings


@dataclass(frozen=True)
class Layout:
    """``threads`` per process. ``cpus`` holds, for each process, the numbers of the CPUs that it may run on;
    empty for a process that is not bound.

    ``bind`` says what each process is bound to: "numa" (a NUMA node), "socket", "cache" (the cores that
    share a last-level cache), "performance" (a share of the performance cores), "cores" (a share of all
    cores), or "none".
    """

    threads: int
    bind: str
    cpus: tuple[tuple[int, ...], ...]
    hyperthreads: bool  # second hardware threads of cores are used
    efficiency_cores: bool  # slower cores are used along with faster ones
    why: str = ""

    @property
    def processes(self) -> int:
        return len(self.cpus)

    @property
    def settings(self) -> Settings:
        """What a plan records: kinds and counts, which mean the same on any machine."""
        return {"count": self.processes, "threads": self.threads, "bind": self.bind}
