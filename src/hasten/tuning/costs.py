"""What the parts of a tune cost, estimated from the observation, and what is set aside for the guard and the
confirmation.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from statistics import median
from typing import Protocol

from ..bench.comparing.decisions import CLAIM_LEAST_PROCESSES, LOOKS_MOST, Effort
from ..bench.guard.checked_steps import LEAST_STEPS, checked_steps
from ..bench.guard.guard import STEPS
from ..bench.workers.joint_starts import Starts
from ..records.observation import Observation
from ..records.plan import Plan

_GUARD_SHARE = 0.2
_GUARD_WORKERS = 3
# seconds for each parameter: what noise adds to a step on a CPU, and what one check compares, in two workers;
# seen on two cores, 100 ms and 1.1 s for 22.6 million
_NOISE_SECONDS = 4.5e-9
_CHECK_SECONDS = 50e-9
PAIRS_MOST = 10
EFFORT_MOST = Effort(PAIRS_MOST, LOOKS_MOST)
CONFIRMATION_SHARE = 1 / 3  # of the budget, set aside for it; more if the minimum of pairs needs more
_BUDGET_MARGIN = 1.1  # no two tunes take the same time


class Known(Protocol):
    """What a bench has learnt about costs, in seconds."""

    @property
    def pair_seconds(self) -> float | None:
        """A pair without any set-up; None before the first."""
        ...

    @property
    def plain_pair_seconds(self) -> float | None:
        """Likewise, of one that confirms: one of its processes trains plainly, and is the slower one."""
        ...

    @property
    def disturbed_share(self) -> float:
        """Share of the blocks so far in which other programs took the processors, 0 to 1."""
        ...

    @property
    def waited_seconds(self) -> float:
        """Spent waiting for other programs and measuring blocks again."""
        ...

    def stretch_pair(self, plan: Plan) -> float | None:
        """A pair that confirms ``plan``, without set-ups, if it is confirmed over whole stretches of
        the run; otherwise None.
        """
        ...

    def for_steps(self, plan: Plan) -> Plan:
        """``plan`` without what is compared over stretches; the baseline if nothing for steps is left."""
        ...

    def setup(self, plan: Plan) -> float:
        """Seconds until a worker has all of ``plan`` in force, without its start."""
        ...


@dataclass(frozen=True)
class Costs:
    """Seconds that the parts of a tune take, estimated from what was observed."""

    guard: float
    pair: float
    guard_steps: int
    effort: Effort  # set aside for the confirmation
    guard_start: float = 0.0  # until the guard's workers train
    starts: Starts = field(default_factory=Starts, compare=False)  # how workers start

    @classmethod
    def estimate(
        cls, observation: Observation, pair_steps: int, budget: float, starts: Starts | None = None
    ) -> Costs:
        """``pair_steps``: steps that one worker of a pair trains. ``budget``: seconds for the whole tune.
        ``starts``: how workers do; one by one unless given.
        """
        starts = starts or Starts()
        step = median(s.seconds for s in observation.steps)
        start = observation.seconds_to_steps
        parameters = sum(root.parameters for root in observation.roots)
        on_cpu = {device for root in observation.roots for device in root.devices} == {"cpu"}
        guard_step = _GUARD_WORKERS * step + _NOISE_SECONDS * parameters * on_cpu
        guard_steps = max(LEAST_STEPS, min(STEPS, int(_GUARD_SHARE * budget / guard_step)))
        pair = starts.seconds(start, 2) + 2 * pair_steps * step
        guard_start = starts.seconds(start, _GUARD_WORKERS)
        checks = _CHECK_SECONDS * parameters * (1 + len(checked_steps(guard_steps)))
        return cls(
            guard=guard_start + guard_steps * guard_step + checks,
            pair=pair,
            guard_steps=guard_steps,
            effort=effort_wanted(budget, pair),
            guard_start=guard_start,
            starts=starts,
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
    """The effort to set aside for the confirmation."""
    return effort_within(CONFIRMATION_SHARE * budget, pair_seconds)


def effort_within(seconds: float, pair_seconds: float) -> Effort:
    """The effort that fits: pairs first, at least what a claim needs; then processes under the plan alone."""
    pairs = max(CLAIM_LEAST_PROCESSES, min(PAIRS_MOST, int(seconds / pair_seconds)))
    left = max(0, int(2 * (seconds / pair_seconds - pairs)))
    return Effort(pairs, min(LOOKS_MOST, left - left % 2))


def budget_for(effort: Effort, done: Effort, pair_seconds: float, spent: float, claims: int = 1) -> float:
    """The budget to confirm with ``effort``, if a tune with ``done`` took ``spent`` seconds.

    At most ``EFFORT_MOST``. The search may take longer then, but not what is set aside; each of several
    ``claims`` gets a part of that.
    """
    more = max(0.0, effort.in_pairs - done.in_pairs)
    least = max(spent + more * pair_seconds, claims * effort.in_pairs * pair_seconds / CONFIRMATION_SHARE)
    return 10 * math.ceil(_BUDGET_MARGIN * least / 10)


def budget_for_search(
    observation: Observation,
    pair_steps: int,
    used: float,
    seconds: float,
    at_least: float,
    starts: Starts | None = None,
) -> float:
    """The budget that leaves ``seconds`` to the search, after ``used`` before it; at least
    ``at_least``. ``starts``: as in ``Costs.estimate``.
    """
    budget = 10 * math.ceil(max(at_least, used + seconds) / 10)
    while budget - used - Costs.estimate(observation, pair_steps, budget, starts).reserve < seconds:
        budget += 10
    return budget
