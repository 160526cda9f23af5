"""Some steps take far longer than usual because they contain forward passes without gradients: reinforcement
learning collects data there and then trains on it for several steps.
"""

from __future__ import annotations

from collections import Counter
from statistics import median

from ..records.cause import Cause
from ..records.facts import Facts
from ..records.phases import step_seconds

_LEAST_SHARE = 0.10


def look(facts: Facts) -> Cause | None:
    """The cause, if there is one; None if evaluations were seen, which are reported separately."""
    steps, run = facts.observation.steps, facts.observation.run
    if not steps or (run is not None and run.part("evaluation").count):
        return None
    usual = Counter(step.evaluations for step in steps).most_common(1)[0][0]
    longer = [step for step in steps if step.evaluations > usual]
    seconds = step_seconds(facts.observation)
    extra = sum(max(0.0, step.seconds - seconds) for step in longer)
    share = extra / sum(step.seconds for step in steps)
    if not longer or share < _LEAST_SHARE:
        return None
    passes = median(step.evaluations for step in longer)
    evidence = (
        f"{share:.0%} of the time is beyond that of usual steps, in {len(longer)} of {len(steps)} steps: "
        f"they contain forward passes without gradients ({passes:.0f} in one), perhaps rollouts. "
        "Everything said about a step, and tried on it, refers to the other steps"
    )
    return Cause("rollouts", share, evidence, ())
