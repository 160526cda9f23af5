"""Whether a training waits for its data at all, or for the processors that make it."""

from __future__ import annotations

from ....records.facts import Facts
from ....records.loading import taken_by_workers
from ....records.phases import phase_share

_LEAST_WAITING = 0.02  # of a step
_FASTER = 4.0  # times as fast a step may become by other techniques: seen, on a GPU


def hardly_waits(facts: Facts) -> list[str]:
    """The reason, if waiting for data is too small a part of a step to gain anything; otherwise empty."""
    waiting = phase_share(facts.observation, "data") + taken_by_workers(facts)
    if not facts.observation.steps or waiting >= _LEAST_WAITING or _will_wait(facts):
        return []
    return [f"{waiting:.1%} of a step is waiting for data: no more could be gained"]


def _will_wait(facts: Facts) -> bool:
    """Whether the loaders' processes could not keep up with a training that is that much faster. Seen: twelve
    of them made a batch in 41 ms, for plain steps of 61 ms, and of 30 in bfloat16.
    """
    seen = facts.observation
    processes = sum(loader.workers for loader in seen.training_loaders)
    if seen.processors is None or not processes:
        return False
    return _FASTER * seen.processors.workers >= min(processes, facts.machine.usable_cpus)
