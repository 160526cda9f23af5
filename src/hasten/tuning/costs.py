"""What the parts of a tune take, as estimated from what was observed, and what is set aside for them: for the
guard and for the confirmation.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import median
from typing import Protocol

from ..bench.comparing.decisions import CLAIM_LEAST_PROCESSES, LOOKS_MOST, Effort
from ..bench.guard.checked_steps import LEAST_STEPS
from ..bench.guard.guard import STEPS
from ..bench.workers.starting import START_OVERLAP
from ..records.observation import Observation
from ..records.plan import Plan

_GUARD_SHARE = 0.2
_GUARD_WORKERS = 3
PAIRS_MOST = 10
EFFORT_MOST = Effort(PAIRS_MOST, LOOKS_MOST)
CONFIRMATION_SHARE = 1 / 3  # of the budget, set aside for it; for fewer pairs than a claim needs, more
_BUDGET_MARGIN = 1.1  # no two tunes take the same time


class Known(Protocol):
    """What a bench has learnt of costs, in seconds."""

    @property
    def pair_seconds(self) -> float | None:
        """Of a pair without any set-up; None before the first."""
        ...

    @property
    def disturbed_share(self) -> float:
        """Of the blocks so far, 0 to 1: those in which other programs took the processors."""
        ...

    @property
    def waited_seconds(self) -> float:
        """That went into waiting for other programs, and into what was measured again."""
        ...

    def stretch_pair(self, plan: Plan) -> float | None:
        """Of a pair that confirms ``plan``, without set-ups, where it is confirmed over whole stretches of
        the run; else None.
        """
        ...

    def setup(self, plan: Plan) -> float:
        """Until a worker has all of ``plan`` in force, its start not counted."""
        ...


@dataclass(frozen=True)
class Costs:
    """Seconds that the parts of a tune take, estimated from what was observed."""

    guard: float
    pair: float
    guard_steps: int
    effort: Effort  # set aside for the confirmation
    guard_start: float = 0.0  # of the guard: until its workers train

    @classmethod
    def estimate(cls, observation: Observation, pair_steps: int, budget: float) -> Costs:
        """``pair_steps``: what one worker of a pair trains. ``budget``: seconds for the whole tune."""
        step = median(s.seconds for s in observation.steps)
        start = observation.start_seconds
        affordable = int(_GUARD_SHARE * budget / (_GUARD_WORKERS * step))
        guard_steps = max(LEAST_STEPS, min(STEPS, affordable))
        pair = START_OVERLAP * start + 2 * pair_steps * step
        guard_start = 1.5 * START_OVERLAP * start
        return cls(
            guard=guard_start + _GUARD_WORKERS * guard_steps * step,
            pair=pair,
            guard_steps=guard_steps,
            effort=effort_wanted(budget, pair),
            guard_start=guard_start,
        )

    def guard_of(self, steps: float) -> float:
        """A guard of this many steps."""
        return self.guard_start + (self.guard - self.guard_start) * steps / self.guard_steps

    @property
    def reserve(self) -> float:
        """What the search must leave."""
        return self.guard + self.effort.in_pairs * self.pair

    @property
    def least(self) -> float:
        """The shortest honest tune: a little search, the guard, as many pairs as a claim needs."""
        return self.guard + (CLAIM_LEAST_PROCESSES + 2) * self.pair


def effort_wanted(budget: float, pair_seconds: float) -> Effort:
    """What is to be set aside for the confirmation."""
    return effort_within(CONFIRMATION_SHARE * budget, pair_seconds)


def effort_within(seconds: float, pair_seconds: float) -> Effort:
    """What fits into them: pairs first, no fewer than a claim needs; then processes of the plan alone."""
    pairs = max(CLAIM_LEAST_PROCESSES, min(PAIRS_MOST, int(seconds / pair_seconds)))
    left = max(0, int(2 * (seconds / pair_seconds - pairs)))
    return Effort(pairs, min(LOOKS_MOST, left - left % 2))


def budget_for(effort: Effort, done: Effort, pair_seconds: float, spent: float, claims: int = 1) -> float:
    """The budget to confirm with ``effort``, where a tune with ``done`` took ``spent`` seconds.

    At most ``EFFORT_MOST``. The search may take longer then, but not what is set aside; of which each of
    several ``claims`` has its part.
    """
    more = max(0.0, effort.in_pairs - done.in_pairs)
    least = max(spent + more * pair_seconds, claims * effort.in_pairs * pair_seconds / CONFIRMATION_SHARE)
    return 10 * math.ceil(_BUDGET_MARGIN * least / 10)


def budget_for_search(
    observation: Observation, pair_steps: int, used: float, seconds: float, at_least: float
) -> float:
    """The budget that leaves ``seconds`` to the search, besides ``used`` ones before it; not under
    ``at_least``.
    """
    budget = 10 * math.ceil(max(at_least, used + seconds) / 10)
    while budget - used - Costs.estimate(observation, pair_steps, budget).reserve < seconds:
        budget += 10
    return budget
