"""Does an evaluation under the plan tell what it tells in full precision?

Asked where a plan lowers evaluations. Each checked step's batch is evaluated in both precisions by the same
weights: the worker tells how far what its models return departs. Where the script evaluates in the steps that
are watched, the numbers that it prints then are compared with the baseline's, but for those that a perturbed
baseline prints otherwise, too: times, and what training by another rounding changes.

A perturbed baseline is no measure here: an evaluation must be right, however little rounding it takes to
spoil it. So the limit is a fixed one.
"""

from __future__ import annotations

import math

from ...inside.techniques.support.lowered_evaluations import MOST
from ...records.comparison import StepDeparture
from ...records.trace import Trace
from ..workers.printed import apart
from .checked_steps import Watched


def judge_evaluations(reference: Watched, perturbed: Watched, candidate: Watched) -> dict[str, StepDeparture]:
    """By what was compared: "evaluation" and "printed"; nothing where the plan lowers no evaluation."""
    returned = [(check.evaluation, check.step) for check in candidate.checks if check.evaluation is not None]
    if not returned:
        return {}
    told = printed(reference.trace, perturbed.trace, candidate.trace)
    found = {"evaluation": max(returned)} | ({"printed": max(told)} if told else {})
    return {what: _row(*farthest) for what, farthest in found.items()}


def printed(reference: Trace, perturbed: Trace, candidate: Trace) -> list[tuple[float, int]]:
    """How far the numbers of each line depart, relative, with its step."""
    found = []
    for number, (one, again, other) in enumerate(zip(reference, perturbed, candidate, strict=False), 1):
        for lines in zip(one.printed, other.printed, again.printed, strict=False):
            departure = apart(*lines)
            if math.isfinite(departure):  # else the words differ: a best result so far, perhaps
                found.append((departure, number))
    return found


def _row(departure: float, step: int) -> StepDeparture:
    return StepDeparture(1.0, MOST, departure <= MOST, step, departure, MOST)
