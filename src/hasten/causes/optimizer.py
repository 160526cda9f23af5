"""The step updates parameters one tensor at a time."""

from __future__ import annotations

from ..records.cause import Cause
from ..records.facts import Facts
from ..records.phases import phase_share

_LEAST_SHARE = 0.03


def look(facts: Facts) -> Cause | None:
    share = phase_share(facts.observation, "optimizer")
    if share < _LEAST_SHARE or all(optimizer.fused for optimizer in facts.observation.optimizers):
        return None
    names = ", ".join(sorted({optimizer.name for optimizer in facts.observation.optimizers}))
    return Cause(
        "optimizer", share, f"{share:.0%} of a step is the update by {names}, not fused", ("fused_optimizer",)
    )
