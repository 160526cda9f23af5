"""How a training is laid over a machine: processes, their threads, and the CPUs of each."""

from __future__ import annotations

from dataclasses import dataclass

from .plan import Settings


@dataclass(frozen=True)
class Layout:
    """``threads`` are those of each process. ``cpus`` holds for each process the numbers of the CPUs that it
    may run on; an empty tuple where it is bound to none.

    ``bind`` names what each process has for its own: "numa" (a NUMA node), "socket", "cache" (the cores that
    share a last-level cache), "performance" (a share of the performance cores), "cores" (a share of all
    cores), or "none".
    """

    threads: int
    bind: str
    cpus: tuple[tuple[int, ...], ...]
    hyperthreads: bool  # second hardware threads of cores are used
    efficiency_cores: bool  # slower cores beside faster ones are used
    why: str = ""

    @property
    def processes(self) -> int:
        return len(self.cpus)

    @property
    def settings(self) -> Settings:
        """What a plan says of it: kinds and counts, which mean something on any machine."""
        return {"count": self.processes, "threads": self.threads, "bind": self.bind}
