"""Read what may slow a run down. Takes some milliseconds: not for every step. Starts no program.

Sources: proc(5) for /proc/self/status and /proc/meminfo; https://docs.kernel.org/accounting/psi.html for
/proc/pressure.
"""

from __future__ import annotations

import time
from pathlib import Path

from hasten.machine.clocks import gigahertz, heat_stops
from hasten.machine.container import memory_left_bytes, memory_limit_bytes
from hasten.machine.probe import fields_in, number_in, text_of
from hasten.machine.processor_time import allowed_cpus, processor_time
from hasten.records.run_facts import RunFacts


def run_facts(process: int, root: Path = Path("/")) -> RunFacts:
    """A reading of now. ``process``: it and all processes below it are the run; memory is this process's."""
    own, machine = _kib_in(root / "proc/self/status"), _kib_in(root / "proc/meminfo")
    return RunFacts(
        at=time.monotonic(),
        processors=processor_time(root, process),
        cpus=allowed_cpus(),
        resident_bytes=own.get("RssAnon"),
        swapped_bytes=own.get("VmSwap"),
        stalled_seconds=_stalled_seconds(root),
        available_bytes=_smaller(machine.get("MemAvailable"), memory_left_bytes(root)),
        memory_bytes=_smaller(machine.get("MemTotal"), memory_limit_bytes(root)),
        gigahertz=gigahertz(root),
        heat_stops=heat_stops(root),
    )


def _kib_in(path: Path) -> dict[str, int]:
    """The lines "name: 1234 kB", in bytes."""
    told = ((name, number_in(text.removesuffix(" kB"))) for name, text in fields_in(text_of(path)).items())
    return {name: kib * 1024 for name, kib in told if kib is not None}


def _smaller(*amounts: int | None) -> int | None:
    return min((amount for amount in amounts if amount is not None), default=None)


def _stalled_seconds(root: Path) -> float | None:
    """Seconds in which at least one task on the machine waited for memory."""
    first = text_of(root / "proc/pressure/memory").partition("\n")[0]  # some avg10=... total=MICROSECONDS
    total = number_in(first.rpartition("total=")[2])
    return None if total is None else total / 1e6
