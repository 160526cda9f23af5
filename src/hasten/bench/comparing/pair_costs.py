"""What a pair of processes costs that trains whole stretches of a run: predicted from plain training, and
corrected by what pairs took.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

from ...records.observation import Step
from ...records.plan import BASELINE, Plan

_LATEST = 3  # pairs whose median counts


@dataclass
class PairCosts:
    """``start_seconds``: how long a worker takes to its first step, as far as known."""

    start_seconds: float
    _besides: deque[float] = field(default_factory=lambda: deque(maxlen=_LATEST))  # seconds without training
    _paces: dict[Plan, float] = field(default_factory=dict)  # of steps, over the baseline's
    _times: dict[Plan, deque[float]] = field(default_factory=dict)  # of training, over plain training

    def took(self, seconds: float, trained: Mapping[Plan, float], plainly: Mapping[Plan, float]) -> None:
        """A pair took ``seconds``, without set-ups. ``trained``: of these, by each process, and ``plainly``:
        what the same takes in plain training.
        """
        self._besides.append(max(0.0, seconds - sum(trained.values())))
        for plan, taken in trained.items():
            times = self._times.setdefault(plan, deque(maxlen=_LATEST))
            times.append(taken / max(1e-9, plainly[plan]))

    def step_took(self, a: Plan, b: Plan, times: float) -> None:
        """A step takes ``times`` as long under ``b`` as under ``a``."""
        self._paces[b] = times * self._pace(a)

    def foreseen(self, plainly: Mapping[Plan, float], in_steps: float = 0.0) -> float:
        """Seconds of a pair whose processes train ``plainly`` in plain training, ``in_steps`` of it in
        regular steps.
        """
        besides = median(self._besides) if self._besides else 2 * self.start_seconds
        return besides + sum(self._seconds_of(plan, of, min(of, in_steps)) for plan, of in plainly.items())

    def _seconds_of(self, plan: Plan, plainly: float, in_steps: float) -> float:
        """As for the largest part of ``plan`` that was timed. If that is plain training, only steps are as
        fast as known, and everything else is as slow as plain.
        """
        nearest = _largest_part(plan, self._times)
        times = median(self._times[nearest]) if nearest in self._times else 1.0
        return times * (plainly if nearest else plainly - (1 - min(1.0, self._pace(plan))) * in_steps)

    def _pace(self, plan: Plan) -> float:
        """Time of a step, over the baseline's."""
        return self._paces.get(_largest_part(plan, self._paces), 1.0)


def _largest_part(plan: Plan, known: Collection[Plan]) -> Plan:
    """The largest part among ``known``: additions do not make a plan slower."""
    parts = [one for one in known if plan.holds(one)]
    return max(parts, key=lambda one: len(one.techniques), default=BASELINE)


def seconds_trained(steps: Sequence[Step]) -> float:
    """Seconds of steps without techniques' set-up."""
    return sum(step.seconds - step.setup_seconds for step in steps)
