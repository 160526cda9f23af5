"""A reading of what may slow a run down, from the system."""

from __future__ import annotations

from dataclasses import dataclass

from .processor_time import ProcessorTime


@dataclass(frozen=True)
class RunFacts:
    """What this system does not report is None. ``heat_stops`` and ``stalled_seconds`` only grow."""

    at: float  # seconds, on any one clock
    processors: ProcessorTime | None = None
    cpus: int = 1  # that this process may run on
    resident_bytes: int | None = None  # of this process, without files
    swapped_bytes: int | None = None  # of this process
    stalled_seconds: float | None = None  # time in which any task on the machine waited for memory
    available_bytes: int | None = None
    memory_bytes: int | None = None
    gigahertz: float | None = None  # of the fastest CPU
    heat_stops: int = 0  # times a core slowed down because it was hot
