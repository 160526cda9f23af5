"""The step computes so little in each operator that most of its time goes to calling them."""

from __future__ import annotations

from ..records.cause import Cause
from ..records.facts import Facts
from ..records.operators import operators_of, seconds_each, small_operators
from ..records.phases import phase_share
from .loss import loss_share

_LEAST_SHARE = 0.10


def look(facts: Facts) -> Cause | None:
    if not small_operators(facts):
        return None
    share = phase_share(facts.observation, "forward", "loss", "backward") - loss_share(facts)
    if share < _LEAST_SHARE:
        return None
    of_calls = "the GPU waits while they are launched" if facts.on_gpu else "most of that is call overhead"
    advice = "" if facts.on_gpu else "Compute all samples, or all positions of a sequence, at once"
    evidence = (
        f"{share:.0%} of a step is forward, loss and backward, in {operators_of(facts.observation):,.0f} "
        f"operators of {seconds_each(facts.observation) * 1e6:.0f} us both ways: {of_calls}"
    )
    return Cause("overhead", share, evidence, ("compile", "threads", "malloc"), advice=advice)
