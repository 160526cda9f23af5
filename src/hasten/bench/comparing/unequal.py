"""Batches of unequal size, such as padded sequences: how the time of a step grows with what is in its batch.

Two blocks of such a script train on different batches, and differ by more than most techniques gain. So times
are scaled to batches of the usual size, in the same way for both plans, as the plain steps showed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import median

from ...records.observation import Step

_LEAST_POINTS = 8
_LEAST_SPREAD = 0.02  # of log elements a sample, median absolute deviation: below it, batches are equal
_EXPLAINED = 0.7  # at most this share of the times' spread is left if size explains them
Count = Callable[[Step], int]
"""What times are compared per: a step's samples, or 1."""
_MOST_POWER = 2.0  # attention over a sequence; nothing usual grows faster


@dataclass(frozen=True)
class Growth:
    """Seconds a sample grow as (elements a sample / ``usual``) ** ``power``; 0 if they do not. Where steps
    are compared, the same of a step.
    """

    power: float = 0.0
    usual: float = 1.0

    def times(self, steps: Sequence[Step], count: Count) -> float | None:
        """How many times as long these steps take as on batches of the usual size, per what ``count`` says;
        None if not known.
        """
        if not self.power:
            return 1.0
        size = _size(steps, count)
        return (size / self.usual) ** self.power if size is not None else None


NO_GROWTH = Growth()


def growth_of(cycles: Sequence[Sequence[Step]], count: Count) -> Growth:
    """The median of the slopes between all pairs of cycles (Theil and Sen), on logarithms. No growth if
    batches are alike, or their size does not explain the times.
    """
    points = [
        (math.log(size), math.log(sum(step.seconds for step in cycle) / sum(map(count, cycle))))
        for cycle in cycles
        if (size := _size(cycle, count)) is not None
    ]
    if len(points) < _LEAST_POINTS or _spread([x for x, _ in points]) < _LEAST_SPREAD:
        return NO_GROWTH
    power = median((d - b) / (c - a) for (a, b), (c, d) in combinations(points, 2) if a != c)
    power = min(_MOST_POWER, max(0.0, power))
    left = _spread([y - power * x for x, y in points])
    if left > _EXPLAINED * _spread([y for _, y in points]):
        return NO_GROWTH
    return Growth(power, math.exp(median(x for x, _ in points)))


def differ(steps: Sequence[Step]) -> bool:
    """Whether these batches are of unequal size, as far as known."""
    sizes = [math.log(step.elements) for step in steps if step.elements]
    return len(sizes) > 1 and _spread(sizes) >= _LEAST_SPREAD


def _size(steps: Sequence[Step], count: Count) -> float | None:
    """Elements per sample, or per step."""
    counted = [step for step in steps if count(step)]
    if not counted or not all(step.elements for step in counted):
        return None
    return sum(step.elements or 0 for step in steps) / sum(map(count, counted))


def _spread(values: Sequence[float]) -> float:
    """Median absolute deviation."""
    middle = median(values)
    return median(abs(value - middle) for value in values)
