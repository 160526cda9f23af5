"""How a tune's time is divided, as estimated before the search begins: what guard and confirmation will
need is set aside.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from statistics import median

from .bench.guard import STEPS
from .bench.judging import LEAST_STEPS
from .bench.starting import START_OVERLAP
from .bench.statistics import CLAIM_LEAST_PROCESSES
from .records.observation import Observation

_GUARD_SHARE = 0.2
_GUARD_WORKERS = 3
PAIRS_MOST = 10
_CONFIRMATION_SHARE = 1 / 3  # of the budget, set aside for pairs; for fewer than a claim needs, more
_BUDGET_MARGIN = 1.1  # no two tunes take the same time


Clock = Callable[[], float]


@dataclass
class Deadline:
    """So many seconds from its making on. The clock can be replaced in tests."""

    seconds: float
    clock: Clock = time.monotonic
    began: float = field(init=False)

    def __post_init__(self) -> None:
        self.began = self.clock()

    @property
    def spent(self) -> float:
        return self.clock() - self.began

    @property
    def left(self) -> float:
        """Below 0 once it is over."""
        return self.seconds - self.spent


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
        guard_steps = max(LEAST_STEPS, min(STEPS, affordable))
        pair = START_OVERLAP * start + 2 * pair_steps * step
        return cls(
            guard=1.5 * START_OVERLAP * start + _GUARD_WORKERS * guard_steps * step,
            pair=pair,
            guard_steps=guard_steps,
            pairs=pairs_wanted(budget, pair),
        )

    @property
    def reserve(self) -> float:
        """What the search must leave."""
        return self.guard + self.pairs * self.pair

    @property
    def least(self) -> float:
        """The shortest honest tune: a little search, the guard, as many pairs as a claim needs."""
        return self.guard + (CLAIM_LEAST_PROCESSES + 2) * self.pair


def pairs_wanted(budget: float, pair_seconds: float) -> int:
    """How many pairs are to be set aside for the confirmation."""
    return max(CLAIM_LEAST_PROCESSES, min(PAIRS_MOST, int(_CONFIRMATION_SHARE * budget / pair_seconds)))


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
