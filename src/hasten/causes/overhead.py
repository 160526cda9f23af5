"""The step computes so little in each operator that most of its time goes to calling them."""

from __future__ import annotations

from statistics import fmean

from ..records.cause import Cause
from ..records.facts import Facts
from ..records.phases import median_phases, phase_share
from .loss import loss_share

_LEAST_SHARE = 0.10
_SMALL = 30e-6  # seconds of an operator's forward and backward pass; calling both takes about 10 us


def look(facts: Facts) -> Cause | None:
    if not small_operators(facts):
        return None
    share = phase_share(facts.observation, "forward", "loss", "backward") - loss_share(facts)
    if share < _LEAST_SHARE:
        return None
    operators = _operators(facts)
    evidence = (
        f"{share:.0%} of a step is forward, loss and backward, in {operators:,.0f} operators of "
        f"{_each(facts) * 1e6:.0f} us both ways: most of that is call overhead. Compute all samples, or "
        "all positions of a sequence, at once"
    )
    return Cause("overhead", share, evidence, ("compile", "threads", "malloc"))


def small_operators(facts: Facts) -> bool:
    """Whether most of the step's computation is call overhead."""
    return 0.0 < _each(facts) < _SMALL


def _each(facts: Facts) -> float:
    """Seconds an operator takes, forward and backward together; 0 if they were not counted."""
    phases, operators = median_phases(facts.observation), _operators(facts)
    passes = sum(phases.get(name, 0.0) for name in ("forward", "loss", "backward"))
    return passes / operators if operators else 0.0


def _operators(facts: Facts) -> float:
    """Operators of a step, in all of its backward passes."""
    observation = facts.observation
    backwards = fmean(step.signature[2] for step in observation.steps) if observation.steps else 0.0
    return (observation.operators or 0) * backwards
