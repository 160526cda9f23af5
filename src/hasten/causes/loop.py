"""The training loop's own code: what a step does besides data, forward, loss, backward and update."""

from __future__ import annotations

from statistics import median

from ..records.cause import Cause
from ..records.facts import Facts
from ..records.phases import phase_share
from .double_precision import converted
from .of_the_run import breakdown
from .waiting import standing_still

_LEAST_SHARE = 0.05


def look(facts: Facts) -> Cause | None:
    """Excludes what is reported as waiting, copies or output."""
    waits, _ = standing_still(facts, lambda wait: wait.what != "print")
    share = phase_share(facts.observation, "other") - waits - _output(facts)
    if share < _LEAST_SHARE:
        return None
    evidence = (
        f"{share:.0%} of a step is the loop's own code, {_besides(facts)}: "
        "what it does tensor by tensor, in Python or waiting"
    )
    return Cause("loop", share, evidence, (), advice=converted(facts))


def _besides(facts: Facts) -> str:
    """What is seen separately. A forward pass is seen if a module that is trained is called."""
    steps = facts.observation.steps
    if not any(step.signature[1] for step in steps):
        return "its forward pass included, because it calls no module that is trained"
    passes = round(median(step.evaluations for step in steps))
    what = "forward pass" if passes == 1 else "forward passes"
    others = f", {passes} {what} without gradients included" if passes else ""
    return (
        "apart from the passes of what is trained, the update and the loader's batches"
        f"{others or ', passes of other models included'}"
    )


def _output(facts: Facts) -> float:
    """Share of a step, if all output happens in steps."""
    seen = breakdown(facts)
    output = seen.share("output") if seen is not None else 0.0
    steps = seen.share("steps") if seen is not None else 1.0
    return output / (output + steps) if output else 0.0
