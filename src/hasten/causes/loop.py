"""The training loop's own code: what a step does besides data, forward, loss, backward and update."""

from __future__ import annotations

from statistics import median

from ..records.cause import Cause
from ..records.facts import Facts
from ..records.phases import phase_share
from .of_the_run import account
from .waiting import standing_still

_LEAST_SHARE = 0.05


def look(facts: Facts) -> Cause | None:
    """What is told as waiting, as copies or as output is none of it."""
    waits, _ = standing_still(facts, lambda wait: wait.what != "print")
    share = phase_share(facts.observation, "other") - waits - _output(facts)
    if share < _LEAST_SHARE:
        return None
    passes = median(step.evaluations for step in facts.observation.steps)
    others = f", {passes:.0f} forward passes without gradients among it" if passes else ""
    evidence = (
        f"{share:.0%} of a step is the loop's own code, beside the passes, the update and the loader's "
        f"batches{others}: what it does there tensor by tensor, in Python or waiting"
    )
    return Cause("loop", share, evidence, ())


def _output(facts: Facts) -> float:
    """Of a step, if all output falls into steps."""
    seen = account(facts)
    output = seen.share("output") if seen is not None else 0.0
    steps = seen.share("steps") if seen is not None else 1.0
    return output / (output + steps) if output else 0.0
