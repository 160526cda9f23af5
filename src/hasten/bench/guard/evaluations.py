"""Does an evaluation under the plan tell what it tells in full precision?

Asked where a plan lowers evaluations. Each checked step's batch is evaluated in both precisions by the same
weights: the worker tells how far what its models return departs. Where the script evaluates in the steps that
are watched, the numbers that it prints then are compared with the baseline's, but for those that a perturbed
baseline prints otherwise, too: times, and what training by another rounding changes. Their root mean square
over the evaluations counts, as that of losses over steps: where a few samples more or less are right, a small
accuracy is another by much in one evaluation, and by little in most.

A perturbed baseline is no measure here: an evaluation must be right, however little rounding it takes to
spoil it. So the limit is a fixed one.
"""

from __future__ import annotations

import math
from statistics import fmean

from ...inside.techniques.support.lowered_evaluations import MOST
from ...records.comparison import StepDeparture
from ...records.trace import Trace
from ..workers.printed import apart
from .checked_steps import Watched


def judge_evaluations(reference: Watched, perturbed: Watched, candidate: Watched) -> dict[str, StepDeparture]:
    """By what was compared: "evaluation" and "printed"; nothing if the plan lowers no evaluation."""
    returned = [(check.evaluation, check.step) for check in candidate.checks if check.evaluation is not None]
    if not returned:
        return {}
    found = {"evaluation": _row(*max(returned))}
    told = printed(reference.trace, perturbed.trace, candidate.trace)
    if told:
        size = math.sqrt(fmean(departure**2 for departure, _ in told))
        found["printed"] = _row(size, max(told)[1])
    return found


def printed(reference: Trace, perturbed: Trace, candidate: Trace) -> list[tuple[float, int]]:
    """How far the number that departs farthest does in each evaluation, relative, with its step."""
    found = []
    for number, (one, again, other) in enumerate(zip(reference, perturbed, candidate, strict=False), 1):
        departures = [apart(*lines) for lines in zip(one.printed, other.printed, again.printed, strict=False)]
        finite = [departure for departure in departures if math.isfinite(departure)]
        if finite:  # where words differ, a best result so far, perhaps, numbers do not count
            found.append((max(finite), number))
    return found


def _row(departure: float, step: int) -> StepDeparture:
    return StepDeparture(1.0, MOST, departure <= MOST, step, departure, MOST)
