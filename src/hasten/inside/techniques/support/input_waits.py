"""Whether a training waits for its data at all, or for the processors that make it."""

from __future__ import annotations

from ....records.facts import Facts
from ....records.loading import taken_by_workers
from ....records.phases import phase_share

_LEAST_WAITING = 0.02  # of a step


def hardly_waits(facts: Facts) -> list[str]:
    """The reason, if waiting for data is too small a part of a step to gain anything; otherwise empty."""
    waiting = phase_share(facts.observation, "data") + taken_by_workers(facts)
    if not facts.observation.steps or waiting >= _LEAST_WAITING:
        return []
    return [f"{waiting:.1%} of a step is waiting for data: no more could be gained"]
