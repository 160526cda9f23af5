"""Techniques that act between steps only, compared by what is between steps.

In whole stretches, the steps of two processes differ by a few percent, and an evaluation that takes a tenth
of a stretch cannot be told apart by that. Where two plans differ only in techniques that leave no work behind
for steps, the search gives both processes the steps of both: only what came between steps still differs.

Only the search does so, which claims nothing. A confirmation counts every second as it was measured, so a
technique that slowed steps down would not get through that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import fmean, median

from ...inside.techniques.catalog import CATALOG
from ...records.observation import Step
from ...records.plan import Plan
from .steps import Rhythm
from .stretch_course import LEAVES_NOTHING

Stretches = Mapping[Plan, Sequence[Sequence[Step]]]


def act_between_steps(a: Plan, b: Plan) -> bool:
    """Whether the two differ in nothing else."""
    names = {name for plan in (a, b) for name in plan.techniques}
    differing = [name for name in names if a.techniques.get(name) != b.techniques.get(name)]
    return all(set(LEAVES_NOTHING).issuperset(CATALOG[name].parts) for name in differing)


def with_steps_of_both(stretches: Stretches, rhythm: Rhythm) -> Stretches:
    """The same stretches, in which a step takes the mean of those of both processes, and what fell into it
    comes on top. Unchanged where one of the processes has no regular step.
    """
    regular = {plan: _regular(each, rhythm) for plan, each in stretches.items()}
    if not all(regular.values()):
        return stretches
    common = fmean(seconds for each in regular.values() for seconds in each)

    def evened(step: Step, usual: float) -> Step:
        beyond = 0.0 if rhythm.regular(step) else max(0.0, step.seconds - usual)
        return replace(step, seconds=common + beyond)

    return {
        plan: [[evened(step, median(regular[plan])) for step in steps] for steps in each]
        for plan, each in stretches.items()
    }


def _regular(stretches: Sequence[Sequence[Step]], rhythm: Rhythm) -> list[float]:
    return [step.seconds for steps in stretches for step in steps if rhythm.regular(step)]
