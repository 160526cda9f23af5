"""Which part of what the search found keeps the training the same, as far as that could be checked."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from ..bench.base import at_start
from ..bench.guard.change_guard import guard_change
from ..bench.guard.guard import each_alone, guard
from ..bench.guard.single_steps import ROUNDING
from ..bench.trials import Trials
from ..inside.techniques.base import RISKS, Risk
from ..inside.techniques.catalog import CATALOG
from ..records.facts import Facts
from ..records.plan import BASELINE, Plan
from ..records.reasons import Decision, Reason
from ..records.result import Tried
from ..records.verdict import GuardVerdict, TooLittleTime
from .budget import Budget
from .progress import Progress

Check = Callable[[Plan, int], GuardVerdict]
"""Of a plan, over so many steps."""

_BY_CHANCE = ("killed", "ended", "script")  # why accuracy may be found checked when it is tried again


@dataclass(frozen=True)
class Held:
    """The part of a plan that may be confirmed, and the last verdict; the empty plan where none was checked.
    ``stopped``: a row for each technique that is no part of it.
    """

    plan: Plan
    verdict: GuardVerdict | None = None
    stopped: tuple[Tried, ...] = ()

    def but_starts(self) -> Held:
        """Nothing, where only what makes the start shorter was not stopped: a start is no reason for a plan,
        and nothing is seen of it over steps. The verdict is then the last that stopped something.
        """
        if not self.stopped or not at_start(BASELINE, self.plan):
            return self
        return replace(self, plan=BASELINE, verdict=self.stopped[-1].reason.guard)


@dataclass(frozen=True)
class Accuracy:
    """Asks the guard, each time from one ``seed``. ``progress`` is told what it stops.

    A training that could not be watched says nothing of any technique: it is tried once more, and then
    nothing is claimed. Nor is anything where the budget does not let a plan be checked and then confirmed.
    """

    trials: Trials
    facts: Facts
    risk: Risk
    seed: int
    budget: Budget
    progress: Progress

    def held_part(self, plan: Plan) -> Held:
        """The largest part of ``plan`` that passes: while it does not, what the departure is due to goes.

        What changes the training itself has no baseline to be compared with: the rest of the plan is guarded
        without it, and then the whole for what must hold of any training.
        """
        changing = [
            name
            for name, how in plan.techniques.items()
            if CATALOG[name].risk_of(how, self.facts) == "training"
        ]
        rest = self._held_the_same(plan.only(set(plan.techniques) - set(changing)))
        if rest.verdict is not None and rest.verdict.unchecked:
            return replace(rest, plan=BASELINE)
        plan, verdict = plan.only({*changing, *rest.plan.techniques}), rest.verdict
        stopped = list(rest.stopped)
        while changing:
            found = self._checked(
                plan,
                lambda one, steps: guard_change(self.trials, one, changing, self.seed, steps),
            )
            if found.passed:
                return Held(plan, found, tuple(stopped))
            if found.refused in plan.techniques:
                stopped += self._stopped([found.refused], plan, "did not apply", found)
                without = self.held_part(plan.without(found.refused))
                return replace(without, stopped=(*stopped, *without.stopped))
            if found.unchecked:
                stopped += self._stopped(changing, plan, "not checked", found)
                return Held(rest.plan, verdict if rest.plan else found, tuple(stopped))
            name = changing.pop()
            stopped += self._stopped([name], plan, "not held", found)
            plan = plan.without(name)
            verdict = verdict if rest.plan else found
        return Held(plan, verdict, tuple(stopped))

    def _that_fits(self, plan: Plan) -> tuple[Plan, list[Tried]]:
        """``plan`` without the technique that takes so long to set up that nothing could be checked and
        confirmed with it, where the rest can be; and its row.
        """
        if self.budget.affords_guard(plan):
            return plan, []
        for name in reversed(list(plan.techniques)):
            rest = plan.without(name)
            if rest and self.budget.affords_guard(rest):
                needed = TooLittleTime(self.budget.enough(plan), (name,))
                late = GuardVerdict("not checked", why_not="budget", budget=needed)
                return rest, list(self._stopped([name], plan, "not checked", late))
        return plan, []

    def _held_the_same(self, plan: Plan) -> Held:
        """As ``held_part``, for what must train the same."""
        plan, stopped = self._that_fits(plan) if plan else (plan, [])
        verdict = None
        while plan:
            verdict = self._same(plan)
            if verdict.refused in plan.techniques:
                stopped += self._stopped([verdict.refused], plan, "did not apply", verdict)
                plan = plan.without(verdict.refused)
                continue
            if verdict.passed or verdict.unchecked:
                break
            blamed = self._to_blame(plan, verdict)
            for name, why in blamed.items():
                stopped += self._stopped([name], plan, "not held", why)
            plan = plan.only(set(plan.techniques) - set(blamed))
        return Held(plan, verdict, tuple(stopped))

    def _to_blame(self, plan: Plan, verdict: GuardVerdict) -> dict[str, GuardVerdict]:
        """What departs by itself, each with the verdict that says so; else the riskiest of those that change
        any loss at all, with the whole plan's.
        """
        names = list(plan.techniques)
        if len(names) > 1 and self.budget.affords_guard(plan, checks=2):
            self.progress.stage("looking for the technique by which the training departs")
            with self.trials.limit.ending(self.budget.looks_most(plan)):
                how = (*self._measure(plan), self.seed, self.budget.guard_steps(plan))
                alone = each_alone(self.trials, plan, *how, before=verdict.after)
            guilty = {name: found for name, found in alone.items() if not found.passed}
            if guilty:
                return guilty
            names = [name for name in names if not (name in alone and _is_untouched(alone[name]))] or names
        return {max(names, key=lambda name: RISKS.index(CATALOG[name].risk_for(self.facts))): verdict}

    def _measure(self, plan: Plan) -> tuple[bool, str]:
        """Whether it may draw other numbers, and the lowest precision that it computes in."""
        techniques = [CATALOG[name] for name in plan.techniques]
        draws = any(technique.risk_for(self.facts) == "draws" for technique in techniques)
        return draws, max((technique.precision for technique in techniques), key=lambda name: ROUNDING[name])

    def _same(self, plan: Plan) -> GuardVerdict:
        draws, precision = self._measure(plan)

        def judged(draws: bool) -> GuardVerdict:
            return self._checked(
                plan,
                lambda one, steps: guard(
                    self.trials, one, draws, precision, self.seed, steps, self.budget.looks_most(one)
                ),
            )

        verdict = judged(draws)
        if verdict.differs_in("streams") and RISKS.index("draws") <= RISKS.index(self.risk):
            # a lower precision can draw other numbers, from the same distribution: randn_like of bfloat16
            verdict = judged(True)
        return verdict

    def _checked(self, plan: Plan, check: Check) -> GuardVerdict:
        verdict = self._timed(plan, check)
        if verdict.why_not in _BY_CHANCE and self.budget.affords_guard(plan):
            self.progress.stage("checking once more, as accuracy could not be checked")
            verdict = self._timed(plan, check)
        return verdict

    def _timed(self, plan: Plan, check: Check) -> GuardVerdict:
        """What ``check`` finds in the time there is for it."""
        if not self.budget.affords_guard(plan):
            needed = TooLittleTime(self.budget.enough(plan), tuple(plan.techniques))
            return GuardVerdict("not checked", why_not="budget", budget=needed)
        limit, steps = self.trials.limit, self.budget.guard_steps(plan)
        began = limit.clock()
        with limit.ending(self.budget.guard_most(plan)):
            verdict = check(plan, steps)
        if verdict.steps:  # one that did not come to compare any tells nothing of the next
            took = limit.clock() - began if verdict.first_seconds is None else verdict.first_seconds
            self.budget.guarded(plan, took, steps)
        return verdict

    def _stopped(
        self, names: Sequence[str], plan: Plan, why: Decision, verdict: GuardVerdict
    ) -> Iterator[Tried]:
        """A row for each of ``names``; told as it is made."""
        reason = Reason(decision=why, guard=verdict)
        for name in names:
            row = Tried(name, plan.techniques[name], None, plan, False, reason, "guard")
            self.progress.tried(row)
            yield row


def too_late(tried: Sequence[Tried]) -> GuardVerdict | None:
    """The verdict where nothing was found but what there was no time to check and confirm."""
    late = {row.technique: row.reason.budget for row in tried if row.reason.decision == "too late"}
    enough = max((budget for budget in late.values() if budget is not None), default=None)
    if enough is None:
        return None
    return GuardVerdict("not checked", why_not="budget", budget=TooLittleTime(int(enough), tuple(late)))


def _is_untouched(verdict: GuardVerdict) -> bool:
    """Every loss is the baseline's, bit by bit."""
    return verdict.loss_curve.deviation == 0.0
