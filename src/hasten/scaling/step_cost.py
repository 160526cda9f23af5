"""What a step of one worker takes by its number of samples, fitted to what was measured."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import fmean, median, stdev

from ..records.scaling import Line, StepCost

_OF_A_MEDIAN = 1.2533  # its standard error, as a multiple of that of the mean of normal values
_OF_ONE_STEP = 0.1  # how far a single step may be from the usual one


def fitted(runs: Mapping[int, Sequence[Sequence[float]]], backward_share: float) -> StepCost:
    """``runs``: by samples a step, the seconds of the steps of one process or of several; of the largest
    number the script's own.

    With one number of samples nothing says how much of a step is fixed: the bounds are none of it and all of
    it. Raises ValueError if there are no steps.
    """
    runs = {samples: [*filter(None, of_each)] for samples, of_each in sorted(runs.items())}
    medians = {samples: _median(of_each) for samples, of_each in runs.items() if of_each}
    if not medians:
        raise ValueError("no step was measured")
    whole = max(medians)
    spread = tuple(value / medians[whole] for run in runs[whole] for value in run)
    if len(medians) == 1:
        total = medians[whole]
        low, mid, high = (Line(total * part, total * (1 - part) / whole) for part in (0.0, 0.5, 1.0))
    else:
        mid = _through(medians)
        error = max(_uncertainty(runs[samples]) for samples in medians)
        low, high = _times(mid, 1 / (1 + error)), _times(mid, 1 + error)
    return StepCost(low, mid, high, backward_share, spread, tuple(medians.items()))


def _median(of_each: Sequence[Sequence[float]]) -> float:
    return fmean(median(run) for run in of_each)


def _through(medians: Mapping[int, float]) -> Line:
    """The line through these points by least squares of relative errors, with neither part below zero."""
    weights = {samples: 1 / value**2 for samples, value in medians.items()}
    total = sum(weights.values())
    mean_x = sum(weights[x] * x for x in medians) / total
    mean_y = sum(weights[x] * y for x, y in medians.items()) / total
    spread_x = sum(weights[x] * (x - mean_x) ** 2 for x in medians)
    slope = sum(weights[x] * (x - mean_x) * (y - mean_y) for x, y in medians.items()) / spread_x
    if slope <= 0:
        return Line(mean_y, 0.0)
    if mean_y <= slope * mean_x:
        squares = sum(weights[x] * x * x for x in medians)
        return Line(0.0, sum(weights[x] * x * y for x, y in medians.items()) / squares)
    return Line(mean_y - slope * mean_x, slope)


def _uncertainty(of_each: Sequence[Sequence[float]]) -> float:
    """Relative: twice the standard error of a median, or half of what two processes differ by."""
    medians = [median(run) for run in of_each]
    apart = (max(medians) - min(medians)) / 2 / fmean(medians)
    run = max(of_each, key=len)
    if len(run) < 2:
        return max(apart, _OF_ONE_STEP)
    return max(apart, 2 * _OF_A_MEDIAN * stdev(run) / fmean(run) / math.sqrt(len(run)))


def _times(line: Line, factor: float) -> Line:
    return Line(line.fixed_seconds * factor, line.sample_seconds * factor)
