"""What a pair of processes takes that train whole stretches of a run: foreseen from plain training, and
corrected by what pairs took.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

from ...records.observation import Step
from ...records.plan import BASELINE, Plan
from ..workers.starting import START_OVERLAP

_LATEST = 3  # whose median counts


@dataclass
class PairCosts:
    """``start_seconds``: what it takes a worker to come to its first step, as far as is known."""

    start_seconds: float
    _besides: deque[float] = field(default_factory=lambda: deque(maxlen=_LATEST))  # seconds of no training
    _times: dict[Plan, deque[float]] = field(default_factory=dict)  # of training, over what it takes plainly

    def took(self, seconds: float, trained: Mapping[Plan, float], plainly: Mapping[Plan, float]) -> None:
        """A pair took so many seconds, without set-ups. ``trained``: of these, by each process, and
        ``plainly``: what that takes in plain training.
        """
        self._besides.append(max(0.0, seconds - sum(trained.values())))
        for plan, taken in trained.items():
            times = self._times.setdefault(plan, deque(maxlen=_LATEST))
            times.append(taken / max(1e-9, plainly[plan]))

    def foreseen(self, plainly: Mapping[Plan, float]) -> float:
        """Seconds of a pair whose processes train so long in plain training."""
        besides = median(self._besides) if self._besides else START_OVERLAP * self.start_seconds
        return besides + sum(self._times_of(plan) * seconds for plan, seconds in plainly.items())

    def _times_of(self, plan: Plan) -> float:
        """As of the largest part of ``plan`` that was timed: what is added to a plan makes it no slower."""
        timed = [one for one in self._times if plan.holds(one)]
        nearest = max(timed, key=lambda one: len(one.techniques), default=BASELINE)
        return median(self._times[nearest]) if nearest in self._times else 1.0


def seconds_trained(steps: Sequence[Step]) -> float:
    """Without techniques' set-up."""
    return sum(step.seconds - step.setup_seconds for step in steps)
