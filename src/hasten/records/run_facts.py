"""A reading of what may slow a run down, told by the system."""

from __future__ import annotations

from dataclasses import dataclass

from .processor_time import ProcessorTime


@dataclass(frozen=True)
class RunFacts:
    """What this system does not tell is None. ``heat_stops`` and ``stalled_seconds`` only grow."""

    at: float  # seconds, of some clock
    processors: ProcessorTime | None = None
    cpus: int = 1  # that this process may run on
    resident_bytes: int | None = None  # of this process, files apart
    swapped_bytes: int | None = None  # of this process
    stalled_seconds: float | None = None  # in which something of the machine waited for memory
    available_bytes: int | None = None
    memory_bytes: int | None = None
    gigahertz: float | None = None  # of the fastest CPU
    heat_stops: int = 0  # times a core slowed down as it was hot
