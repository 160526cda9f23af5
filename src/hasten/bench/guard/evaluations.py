"""Does an evaluation under the plan give the same result as in full precision?

Checked if a plan lowers the precision of evaluations. Each checked step's batch is evaluated in both
precisions with the same weights: the worker reports how far the model's outputs differ. If the script
evaluates in the watched steps, the numbers it prints then are compared with the baseline's, except those that
a perturbed baseline prints differently, too: times, and anything that training with different rounding
changes. Their root mean square over the evaluations counts, like that of losses over steps: if a few samples
more or less are right, a small accuracy changes a lot in one evaluation, and little in most.

A perturbed baseline is no yardstick here: an evaluation must be right, however little rounding it takes to
spoil it. So the limit is fixed.
"""

from __future__ import annotations

import math
from statistics import fmean

from ...inside.techniques.support.lowered_evaluations import MOST
from ...records.comparison import StepDeparture
from ...records.trace import Trace
from ..workers.printed_lines import apart
from .checked_steps import Watched


def judge_evaluations(reference: Watched, perturbed: Watched, candidate: Watched) -> dict[str, StepDeparture]:
    """Results by what was compared, "evaluation" and "printed"; empty if the plan lowers no evaluation."""
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
    """The largest relative difference of a number in each evaluation, with its step."""
    found = []
    for number, (one, again, other) in enumerate(zip(reference, perturbed, candidate, strict=False), 1):
        departures = [apart(*lines) for lines in zip(one.printed, other.printed, again.printed, strict=False)]
        finite = [departure for departure in departures if math.isfinite(departure)]
        if finite:  # if words differ (perhaps "best so far"), numbers do not count
            found.append((max(finite), number))
    return found


def _row(departure: float, step: int) -> StepDeparture:
    return StepDeparture(1.0, MOST, departure <= MOST, step, departure, MOST)
