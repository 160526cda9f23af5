"""A tune's budget: what its parts may still take so that its end (a guard and the confirmation's pairs) fits,
predicted from what starts and steps have cost in this tune so far.

The search may use what that leaves. It is stopped only if it would use up the minimum that a claim needs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from ..bench.comparing.decisions import CLAIM_LEAST_PROCESSES, Effort
from ..bench.guard.checked_steps import LEAST_STEPS
from ..bench.script_bench import SEARCH_PAIRS
from ..bench.workers.joint_starts import Starts
from ..records.observation import Observation
from ..records.plan import BASELINE, Plan
from ..records.verdict import Shortfall, TooLittleTime
from .costs import CONFIRMATION_SHARE, EFFORT_MOST, Costs, Known, budget_for_search, effort_within
from .deadline import Deadline
from .gains import Gains

_OBSERVATION_SHARE = 0.08  # of the budget, if steps are slow
_WATCHED_ON_SHARE = 0.05  # of the budget, for the end of an epoch that is known to come within it
_PATIENCE_SHARE = 0.1  # of the budget, for what is measured again because other programs disturbed it
_CLOSING_SECONDS = 1.0  # until the last worker has gone and the plan is written
_CLOSING_SHARE = 0.01  # of the budget, the same for long ones
_ALLOWED = 1.04  # times the budget: predictions are no better than this
_PATIENT = 1.1  # times the budget: until then, disturbed blocks are measured again
_DISTURBED_TIMES = 3.0  # times the share of disturbed blocks: how much longer things take that do not wait
_LONGEST_TIMES = 2.0
_PLAIN_SPEEDUP = 1.3  # from here on a claim holds even if one process in ten is slow
_MARGIN = 1.1  # times a suggested budget: no two tunes take the same time
_STOPPED = 1.15  # times the budget: what still runs then is stopped, and stopping takes time, too
_STOPPED_BESIDE_OTHERS = 1.18  # the same, if other programs are running

Efforts = Sequence[tuple[Plan, Effort]]
"""Of confirmations, one after another."""


@dataclass
class Budget(Deadline):
    """The seconds of a whole tune. They are divided once the script has been watched: ``divide``."""

    costs: Costs = field(init=False)  # as estimated when it was divided
    _known: Known = field(init=False)  # what they turn out to be
    _observation: Observation = field(init=False)
    _pair_steps: int = field(init=False)
    _used: float = field(init=False)  # seconds before it was divided
    gains: Gains = field(default_factory=Gains, init=False)  # of the plan found so far
    _guard_times: float | None = field(default=None, init=False)  # the last one's time over its estimate
    for_confirmation: float = field(default=0.0, init=False)  # seconds of it that nothing else may use

    def divide(self, seen: Observation, pair_steps: int, known: Known, starts: Starts | None = None) -> None:
        """As ``Costs.estimate``. ``known`` is asked for costs from now on."""
        self.costs = Costs.estimate(seen, pair_steps, self.seconds, starts)
        self._known, self._observation, self._pair_steps = known, seen, pair_steps
        self._used = self.spent

    @property
    def to_observe(self) -> float:
        """Seconds for watching, at most."""
        return _OBSERVATION_SHARE * self.seconds

    @property
    def to_watch_on(self) -> float:
        """Seconds, at most, until an epoch has ended: what comes between epochs is worth knowing of."""
        return _WATCHED_ON_SHARE * self.seconds

    @property
    def patience(self) -> float:
        """Seconds for repeated measurements in the search."""
        return _PATIENCE_SHARE * self.seconds

    @property
    def least(self) -> float:
        """Duration of the shortest honest tune of the script."""
        return self._used + self.costs.least

    # ---- what things cost
    def pair(self, plan: Plan) -> float:
        """Seconds of a pair of the baseline and ``plan``."""
        of_steps = self._known.plain_pair_seconds or self.costs.pair
        return (self._known.stretch_pair(plan) or of_steps) + self._known.setup(plan)

    @property
    def _step_pair(self) -> float:
        return self._known.pair_seconds or self.costs.pair

    def comparison(self, plan: Plan) -> float:
        """Seconds of one comparison of the search, of steps in whole processes."""
        return SEARCH_PAIRS * (self._step_pair + self._known.setup(plan))

    def _takes(self, effort: Effort, plan: Plan) -> float:
        """Where two processes of ``plan`` are looked at, both pay for its set-up."""
        return effort.in_pairs * self.pair(plan) + effort.looks / 2 * self._known.setup(plan)

    def _confirmation(self, plan: Plan, budget: float | None = None) -> float:
        """Seconds set aside for it, under this budget or another."""
        efforts = self._efforts(plan, CONFIRMATION_SHARE * (self.seconds if budget is None else budget))
        if self.gains.largest >= _PLAIN_SPEEDUP:
            efforts = [(one, replace(effort, looks=0)) for one, effort in efforts]
        return sum(self._takes(effort, one) for one, effort in efforts)

    def _efforts(self, plan: Plan, seconds: float) -> Efforts:
        """What fits into so many seconds, with at least the pairs a claim needs. A plan that is confirmed
        over whole stretches gets few of these long pairs, which do not show a small gain in steps. So the
        part of it that speeds up steps is confirmed first, as if it were the whole plan, in at most half of
        the time.
        """
        steps = self._known.for_steps(plan)
        if steps in (plan, BASELINE):
            return [(plan, self._effort_within(seconds, plan))]
        least = CLAIM_LEAST_PROCESSES * self.pair(plan)
        of_steps = self._effort_within(min(seconds / 2, seconds - least), steps)
        of_all = self._effort_within(seconds - self._takes(of_steps, steps), plan)
        return [(steps, replace(of_steps, claims=2)), (plan, replace(of_all, claims=2))]

    def _effort_within(self, seconds: float, plan: Plan) -> Effort:
        found = effort_within(seconds, self.pair(plan))
        while found.looks and self._takes(found, plan) > seconds:
            found = Effort(found.pairs, found.looks - 2)
        return found

    def guard(self, plan: Plan, steps: int | None = None) -> float:
        """Seconds of one more check of ``plan``, of this many steps or of all; as much slower than estimated
        as the last check was or, before the first, as pairs were."""
        if self._guard_times is not None:
            return self._guard_times * self._estimated_guard(plan, steps)
        return self._estimated_guard(plan, steps, max(1.0, self._step_pair / self.costs.pair))

    def _estimated_guard(self, plan: Plan, steps: int | None, slower: float = 1.0) -> float:
        steps = self.costs.guard_steps if steps is None else steps
        return slower * self.costs.guard_of(steps) + self._known.setup(plan)

    def guarded(self, plan: Plan, seconds: float, steps: int) -> None:
        """Records that a check of ``plan`` over ``steps`` took ``seconds``."""
        self._guard_times = seconds / self._estimated_guard(plan, steps)

    @property
    def _closing(self) -> float:
        return max(_CLOSING_SECONDS, _CLOSING_SHARE * self.seconds)

    def _least_end(self, plan: Plan, times: float = 1.0) -> float:
        """Seconds of the fewest pairs a claim needs, ``times`` as slow, and what follows."""
        return times * CLAIM_LEAST_PROCESSES * self.pair(plan) + self._closing

    @property
    def _stopped(self) -> float:
        """Seconds until whatever runs is stopped."""
        return self._beyond(_STOPPED if self.strain <= 1 else _STOPPED_BESIDE_OTHERS)

    def _beyond(self, share: float) -> float:
        """Seconds left of ``share`` times the budget."""
        return self.left + (share - 1) * self.seconds

    @property
    def strain(self) -> float:
        """How many times longer the end may take because of other programs: 1 without any.

        With a program that keeps all cores busy a third of the time, a seventh of the blocks are disturbed
        (the others wait), and a guard takes half as long again.
        """
        return min(_LONGEST_TIMES, 1 + _DISTURBED_TIMES * self._known.disturbed_share)

    # ---- what may still be spent
    def search_left(self, plan: Plan) -> float:
        """Seconds in which the search may start something, if it has found ``plan`` so far. Time lost to
        other programs is added, so that as much is tried as on an idle machine."""
        waited, strain = min(self.patience, self._known.waited_seconds), self._strain_for(plan)
        return self.left + waited - strain * self.guard(plan) - self._set_aside(plan, strain) - self._closing

    def _set_aside(self, plan: Plan, strain: float) -> float:
        """Seconds set aside for the confirmation: if other programs slow it, fewer pairs rather than less
        search.
        """
        least = sum(CLAIM_LEAST_PROCESSES * self.pair(one) for one, _ in self._efforts(plan, 0.0))
        return max(self._confirmation(plan), strain * least)

    def search_most(self, plan: Plan) -> float:
        """When a running comparison is stopped: the minimum for a claim needs what is left."""
        strain = self._strain_for(plan)
        return max(0.0, self.left - strain * self.guard(plan) - self._least_end(plan, strain))

    def _strain_for(self, found: Plan) -> float:
        """Without a plan found, a longer end does no harm."""
        return self.strain if found else 1.0

    def guard_steps(self, plan: Plan) -> int:
        """Steps over which ``plan`` is checked: as estimated, or fewer if time is short."""
        most, whole = self.costs.guard_steps, self.strain * self.guard(plan)
        start = self.strain * self.guard(plan, steps=0)
        fitting = (self.guard_most(plan) - start) / max(1e-9, whole - start)
        return max(min(LEAST_STEPS, most), int(min(1.0, fitting) * most))

    def affords_guard(self, plan: Plan, checks: int = 1) -> bool:
        """Whether there is time to check ``plan`` this many times, and confirm it or its part for steps."""
        return checks * self.guard(plan) + self._least_after(plan, checks) <= self._beyond(_ALLOWED)

    def affords_end(self, plan: Plan) -> bool:
        """Whether ``plan``, set up in each process, could be checked and confirmed; nearly, if disturbed."""
        both = (1.0, self._strain_for(plan))
        plain, slower = (times * self.guard(plan) + self._least_after(plan, 1, times) for times in both)
        return plain <= self.left and slower <= self._beyond(_ALLOWED)

    def guard_most(self, plan: Plan, checks: int = 1) -> float:
        """When the first of this many running checks is stopped."""
        after = (checks - 1) * self.guard(plan) + self._least_after(plan, checks, self.strain)
        return max(0.0, self._stopped - after)

    def looks_most(self, plan: Plan) -> float:
        """When nothing more is looked at that may speak for ``plan``: it must still be confirmed then, or
        what is left of it be checked and confirmed."""
        checks = min(2, len(plan.techniques))
        after = (checks - 1) * self.guard(plan) + self._least_after(plan, checks)
        return max(0.0, self.left - after)

    def _least_after(self, plan: Plan, checks: int, times: float = 1.0) -> float:
        """Budget to keep after this many checks: for ``plan`` or, if that is too much, for its steps."""
        fits = checks * self.guard(plan) + self._least_end(plan) <= self._beyond(_ALLOWED)
        return self._least_end(plan if fits else self._known.for_steps(plan) or plan, times)

    def confirmations(self, plan: Plan) -> Efforts:
        """What to confirm, in order, with efforts fixed before the first pair runs: first the part of
        ``plan`` that speeds up steps, if that is not all of it, then ``plan``. Only what there is time for.
        """
        left, steps = self.left - self._closing, self._known.for_steps(plan)
        efforts = self._efforts(plan, left)
        both = self._least_end(plan) + CLAIM_LEAST_PROCESSES * self.pair(steps)
        if len(efforts) > 1 and both <= self._beyond(_ALLOWED):
            return efforts
        ends = (one for one in (plan, steps) if one and self._least_end(one) <= self._stopped)
        return [(one, self._effort_within(left, one)) for one in ends][:1]

    def lacking(self, plan: Plan) -> float:
        """Seconds by which its confirmation has less than was set aside for it."""
        return self._confirmation(plan) + self._closing - self.left

    def lacking_processes(self, plan: Plan) -> float:
        """Seconds by which it has less than all the processes may take that could show a small gain."""
        plain = self.gains.together(plan) >= _PLAIN_SPEEDUP
        return 0.0 if plain else self._takes(EFFORT_MOST, plan) + self._closing - self.left

    def refitted(self, plan: Plan, effort: Effort) -> Effort | None:
        """``effort`` cut to the time that earlier confirmations left; None if its minimum no longer fits.
        None of its pairs has run, and they use other processes, so the earlier results cannot bias it.
        """
        if self._least_end(plan) > self._stopped:
            return None
        return replace(self._effort_within(self.left - self._closing, plan), claims=effort.claims)

    def spare(self, efforts: Efforts) -> float:
        """What these leave, plus the extra time a disturbed tune may take."""
        taken = sum(self._takes(effort, plan) for plan, effort in efforts)
        return max(0.0, self._beyond(_PATIENT) - self._closing - taken)

    def confirmation_most(self) -> float:
        """When a running confirmation is stopped."""
        return max(0.0, self._stopped)

    def rest(self) -> Deadline:
        """For what follows the confirmation."""
        return Deadline(self.left - self.for_confirmation - self._closing, self.clock)

    # ---- what another budget would allow
    def too_little(self, plan: Plan, techniques: Sequence[str] = ()) -> TooLittleTime:
        """For the end of ``plan``: to check ``techniques``, if there are some, and to confirm it."""
        check = self.strain * self.guard(plan) if techniques else 0.0
        seen = Shortfall(
            spent=self.spent,
            of=self.seconds,
            needed=check + self._least_end(plan, self.strain),
            times=self._step_pair / self.costs.pair,
            disturbed=self._known.disturbed_share,
        )
        return TooLittleTime(self.enough(plan), tuple(techniques), seen)

    def enough(self, plan: Plan) -> int:
        """A budget that would allow one more check of ``plan``, and its confirmation."""
        end = self.guard(plan) + self._confirmation(plan)
        return 10 * (1 + int((self.spent + end + self._closing) * 1.1 / 10))

    def enough_for(self, plan: Plan, seconds: float) -> int:
        """A budget that gives the search ``seconds`` more, and then time to check and confirm ``plan``."""
        budget = self.seconds

        def left() -> float:
            end = self.guard(plan) + self._confirmation(plan, budget)
            return budget - self.spent - self.strain * end - max(_CLOSING_SECONDS, _CLOSING_SHARE * budget)

        while left() < seconds:
            budget += max(10.0, seconds - left())
        return 10 * math.ceil(_MARGIN * budget / 10)

    def for_search(self, seconds: float) -> float:
        """A budget that gives the search this many seconds; always above this one."""
        seen = self._observation, self._pair_steps, self._used, seconds, self.seconds
        return budget_for_search(*seen, self.costs.starts)
