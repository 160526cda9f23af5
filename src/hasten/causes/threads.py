"""torch uses more threads than can run at once here, or fewer than could."""

from __future__ import annotations

from ..records.cause import Cause
from ..records.facts import Facts
from ..records.operators import small_operators
from ..records.phases import phase_share
from ..records.waiting import threads_beside_others, waiting_threads

_LEAST_SHARE = 0.05


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
        advice = f"Stop these or, while they run, set OMP_NUM_THREADS={threads_beside_others(facts)}"
        return _told(computing, f"of torch's {threads} threads, {others}", advice)
    idle = idle_share(facts)
    if computing * idle < _LEAST_SHARE:
        return None
    return _told(computing * idle, f"torch uses {threads} of {_cores(facts)} cores")


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
