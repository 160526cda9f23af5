"""Steps of a first epoch that take longer than later ones: the script fills its own cache, decodes or
downloads what it then keeps. Pairs of processes train the first steps of a run, and see no later epoch.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from ..records.run_forecast import Span

_APART = 0.2  # as a logarithm: paces that differ by less count as one
_ONE = Span(1.0, 1.0, 1.0)


@dataclass(frozen=True)
class Paces:
    """The step time of a later epoch, relative to the first, which has ``steps``. Under the plan, with an
    interval for what was not seen.
    """

    steps: int
    plain: float
    planned: Span

    def over(self, steps: int, whole: bool) -> tuple[float, Span]:
        """Times the first epoch's pace, plain and under the plan: of this many steps of a ``whole`` run, or
        of later ones.
        """
        first = min(1.0, self.steps / steps) if whole else 0.0
        seen = self.planned.value, self.planned.low, self.planned.high
        planned = Span(*(first + (1 - first) * one for one in seen))
        return first + (1 - first) * self.plain, planned


EVEN = Paces(1, 1.0, _ONE)


def paces_of(steps: int, plain: Sequence[float], planned: Sequence[float], ratio: float) -> Paces:
    """``plain`` and ``planned``: for each process seen in both, what a later step took, relative to a
    first one. ``ratio``: the plan's time over plain's, in the first epoch.

    Under a plan not seen in a later epoch, the gain there may be as large, or nothing: the plan may save in
    the first epoch what the script saves in later ones.
    """
    mean = _mean(plain)
    if abs(math.log(mean)) < _APART:
        return EVEN
    if planned:
        seen = _mean(planned)
        return Paces(steps, mean, Span(seen, seen, seen))
    if mean > 1:
        return Paces(steps, mean, Span(mean, 1.0, mean))
    most = min(1.0, mean / ratio)
    return Paces(steps, mean, Span(most, min(mean, most), most))


def _mean(times: Sequence[float]) -> float:
    return math.exp(fmean(map(math.log, times))) if times else 1.0
