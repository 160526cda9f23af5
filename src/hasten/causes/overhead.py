"""The step computes so little in each operator that most of its time goes to calling them."""

from __future__ import annotations

from statistics import median

from ..records.cause import Cause
from ..records.facts import Facts
from ..records.operators import operators_of, seconds_each, small_operators
from ..records.phases import phase_share, samples_per_step
from .loss import loss_share

_LEAST_SHARE = 0.10
_FEW_SAMPLES = 8  # of a batch: fewer make operators small by themselves
_MANY_OPERATORS = 100  # more than a small model has, unless it goes through a sequence step by step
_AT_ONCE = "Compute all samples, or all positions of a sequence, at once"
_IF_IN_A_LOOP = "If the model goes through samples or positions one by one in Python, compute them at once"


def look(facts: Facts) -> Cause | None:
    if not small_operators(facts):
        return None
    share = phase_share(facts.observation, "forward", "loss", "backward") - loss_share(facts)
    if share < _LEAST_SHARE:
        return None
    of_calls = "the GPU waits while they are launched" if facts.on_gpu else "most of that is call overhead"
    evidence = (
        f"{share:.0%} of a step is forward, loss and backward, in {operators_of(facts.observation):,.0f} "
        f"operators of {seconds_each(facts.observation) * 1e6:.0f} us both ways: {of_calls}"
    )
    return Cause("overhead", share, evidence, ("compile", "threads", "malloc"), advice=_advice(facts))


def _advice(facts: Facts) -> str:
    """As far as a step shows that its operators need not be as small."""
    seen = facts.observation
    if facts.on_gpu or not seen.steps:
        return ""
    backwards = max(1, median(step.signature[2] for step in seen.steps))
    passes = median(step.signature[1] for step in seen.steps) / backwards
    samples = samples_per_step(seen)
    few = samples is not None and samples / backwards < _FEW_SAMPLES
    if few or passes > max(1, len(seen.roots)):
        return _AT_ONCE
    return _IF_IN_A_LOOP if operators_of(seen) >= _MANY_OPERATORS else ""
