"""torch uses more threads than can run at once here, or fewer than could."""

from __future__ import annotations

from ..records.cause import Cause
from ..records.facts import Facts
from ..records.operators import small_operators
from ..records.phases import phase_share

_LEAST_SHARE = 0.05
_STOP_THEM = "Stop these or, while they run, set OMP_NUM_THREADS=1"
_LEAST_WAITING = 0.3  # threads, on average: an operator ends when the last of its threads does


def look(facts: Facts) -> Cause | None:
    """The bound: too many threads may cost all that operators compute; too few, what the missing ones would
    compute meanwhile.
    """
    threads, usable = facts.observation.threads, facts.machine.usable_cpus
    computing = phase_share(facts.observation, "forward", "loss", "backward", "optimizer")
    if facts.on_cpu and threads > usable:
        return _told(computing, f"torch uses {threads} threads where {usable} can run at once")
    if (waiting := waiting_threads(facts)) is not None:
        others = f"{waiting:.1f} wait for a processor, as other programs keep it busy"
        return _told(computing, f"of torch's {threads} threads, {others}", _STOP_THEM)
    idle = idle_share(facts)
    if computing * idle < _LEAST_SHARE:
        return None
    return _told(computing * idle, f"torch uses {threads} of {_cores(facts)} cores")


def waiting_threads(facts: Facts) -> float | None:
    """How many wait for a processor that other programs have, on average, if fewer threads could compute the
    same. None if hardly any does, or if the training has all processors itself. That worker processes of
    loaders have them is a cause of its own.
    """
    seen, used = facts.observation, facts.observation.processors
    if not facts.on_cpu or seen.threads < 2 or used is None:
        return None
    waiting, elsewhere = used.waiting - used.workers, facts.machine.usable_cpus - used.own - used.workers
    return waiting if min(waiting, elsewhere) >= _LEAST_WAITING else None


def idle_share(facts: Facts) -> float:
    """Share of the computation that more threads could take over, at most: small operators are not split."""
    if small_operators(facts):
        return 0.0
    threads, cores = facts.observation.threads, _cores(facts)
    return 1 - threads / cores if facts.on_cpu and threads < cores else 0.0


def _cores(facts: Facts) -> int:
    """Cores that can compute at once; two hardware threads of one core count once."""
    return min(facts.machine.usable_cpus, facts.machine.physical_cores)


def _told(share: float, what: str, advice: str = "") -> Cause:
    return Cause("threads", share, f"{what}: at most {share:.0%} of a step", ("threads",), advice=advice)
