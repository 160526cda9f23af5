"""How a tune's time is divided: what guard and confirmation will need is set aside before the search
begins.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import median

from .bench import guard
from .bench.statistics import CLAIM_LEAST_PROCESSES
from .records.observation import Observation

_GUARD_SHARE = 0.2
_GUARD_WORKERS = 3
_PAIRS_WANTED = 6
PAIRS_MOST = 10
_CONFIRMATION_SHARE = 1 / 3  # of the budget, set aside for pairs where six take less
_BUDGET_MARGIN = 1.1  # no two tunes take the same time
_START_OVERLAP = 1.6  # two workers that start side by side, in units of one's start


@dataclass(frozen=True)
class Costs:
    """Seconds that the parts of a tune take, estimated from what was observed."""

    guard: float
    pair: float
    guard_steps: int
    pairs: int  # set aside for the confirmation

    @classmethod
    def estimate(cls, observation: Observation, pair_steps: int, budget: float) -> Costs:
        """``pair_steps``: what one worker of a pair trains. ``budget``: seconds for the whole tune."""
        step = median(s.seconds for s in observation.steps)
        start = observation.start_seconds
        affordable = int(_GUARD_SHARE * budget / (_GUARD_WORKERS * step))
        guard_steps = max(guard.LEAST_STEPS, min(guard.STEPS, affordable))
        pair = _START_OVERLAP * start + 2 * pair_steps * step
        return cls(
            guard=1.5 * _START_OVERLAP * start + _GUARD_WORKERS * guard_steps * step,
            pair=pair,
            guard_steps=guard_steps,
            pairs=max(_PAIRS_WANTED, min(PAIRS_MOST, int(_CONFIRMATION_SHARE * budget / pair))),
        )

    @property
    def reserve(self) -> float:
        """What the search must leave."""
        return self.guard + self.pairs * self.pair

    @property
    def least(self) -> float:
        """The shortest honest tune: a little search, the guard, as many pairs as a claim needs."""
        return self.guard + (CLAIM_LEAST_PROCESSES + 2) * self.pair

    def confirmation_pairs(self, left: float, measured_pair: float | None) -> int:
        """How many pairs to confirm with, fixed before the first is run. Never fewer than a claim needs."""
        affordable = int(left / (measured_pair or self.pair))
        return max(CLAIM_LEAST_PROCESSES, min(PAIRS_MOST, affordable))


def budget_for(pairs: int, done: int, pair_seconds: float, spent: float) -> float:
    """The budget to confirm with ``pairs``, where a tune with ``done`` pairs took ``spent`` seconds.

    At most ``PAIRS_MOST``. The search may take longer then, but not what is set aside.
    """
    least = max(spent + (pairs - done) * pair_seconds, pairs * pair_seconds / _CONFIRMATION_SHARE)
    return 10 * math.ceil(_BUDGET_MARGIN * least / 10)


def budget_for_search(
    observation: Observation, pair_steps: int, used: float, seconds: float, at_least: float
) -> float:
    """The budget that leaves ``seconds`` to the search, beside ``used`` ones before it; not under
    ``at_least``.
    """
    budget = 10 * math.ceil(max(at_least, used + seconds) / 10)
    while budget - used - Costs.estimate(observation, pair_steps, budget).reserve < seconds:
        budget += 10
    return budget
