"""Which part of the search's plan passes the guard, as far as that could be checked."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from ..bench.base import at_start
from ..bench.comparing.steps import Rhythm
from ..bench.guard.change_guard import guard_change
from ..bench.guard.checked_steps import LEAST_STEPS
from ..bench.guard.guard import each_alone, guard
from ..bench.guard.single_steps import ROUNDING
from ..bench.trials import Trials
from ..inside.techniques.base import RISKS, Risk
from ..inside.techniques.catalog import CATALOG
from ..records.facts import Facts
from ..records.plan import BASELINE, Plan
from ..records.reasons import Decision, Reason
from ..records.result import Tried
from ..records.verdict import GuardVerdict
from ..units import counted
from .budget import Budget
from .dividing import Allowance
from .progress import Progress

Check = Callable[[Plan, int], GuardVerdict]
"""Checks a plan, over this many steps."""

_BY_CHANCE = ("killed", "ended", "script")  # failures that may not recur when the check is repeated


@dataclass(frozen=True)
class Held:
    """The part of a plan that may be confirmed, and the last verdict; the empty plan if none passed.
    ``stopped``: a row for each technique that was removed.
    """

    plan: Plan
    verdict: GuardVerdict | None = None
    stopped: tuple[Tried, ...] = ()

    def but_starts(self) -> Held:
        """The empty plan, if only techniques that shorten the start are left: steps show nothing of it, and
        ``starting_sooner`` looks at it by itself. The verdict is then the last that stopped something.
        """
        if not self.stopped or not at_start(BASELINE, self.plan):
            return self
        return replace(self, plan=BASELINE, verdict=self.stopped[-1].reason.guard)


@dataclass(frozen=True)
class Accuracy:
    """Asks the guard, always from one ``seed``. ``progress`` gets what it stops.

    A training that could not be watched says nothing about any technique: it is tried once more, and then
    nothing is claimed. Nor is anything if the budget is too short to check a plan and then confirm it, and
    ``allowance`` does not let it grow: None never does.
    """

    trials: Trials
    facts: Facts
    risk: Risk
    seed: int
    budget: Budget
    progress: Progress
    allowance: Allowance | None = None

    def held_part(self, plan: Plan) -> Held:
        """The largest part of ``plan`` that passes, found by removing what causes the difference.

        A technique that changes the training itself has no baseline to compare with: the rest of the plan is
        guarded without it, and then the whole plan for what must hold in any training.
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

    def _affords(self, plan: Plan, checks: int = 1) -> bool:
        """Whether there is time to check ``plan`` this many times and confirm it, or there is now: what a
        check stopped has taken the time of what is left.
        """
        if self.budget.affords_guard(plan, checks):
            return True
        return self.allowance is not None and self.allowance.leave_checks(plan, checks)

    def _that_fits(self, plan: Plan) -> tuple[Plan, list[Tried]]:
        """``plan`` without a technique whose set-up takes too long to check and confirm anything with it, if
        the rest fits; and its row.
        """
        if self._affords(plan):
            return plan, []
        for name in reversed(list(plan.techniques)):
            rest = plan.without(name)
            if rest and self._affords(rest):
                needed = self.budget.too_little(plan, (name,))
                late = GuardVerdict("not checked", why_not="budget", budget=needed)
                return rest, list(self._stopped([name], plan, "not checked", late))
        return plan, []

    def _held_the_same(self, plan: Plan) -> Held:
        """Like ``held_part``, for techniques that must train the same."""
        plan, stopped = self._that_fits(plan) if plan else (plan, [])
        verdict = None
        while plan:
            verdict = self._same(plan)
            if verdict.refused in plan.techniques:
                stopped += self._stopped([verdict.refused], plan, "did not apply", verdict)
                plan = plan.without(verdict.refused)
                continue
            lower = [name for name in plan.techniques if CATALOG[name].precision != "float32"]
            if verdict.why_not == "noise" and lower:
                stopped += self._stopped(lower, plan, "not checked", verdict)
                plan = plan.only(set(plan.techniques) - set(lower))
                continue
            if verdict.passed or verdict.unchecked:
                break
            blamed = self._to_blame(plan, verdict)
            for name, why in blamed.items():
                stopped += self._stopped([name], plan, "not held", why)
            plan = plan.only(set(plan.techniques) - set(blamed))
        return Held(plan, verdict, tuple(stopped))

    def _to_blame(self, plan: Plan, verdict: GuardVerdict) -> dict[str, GuardVerdict]:
        """The techniques that differ on their own, each with that verdict; if none does, the likeliest of
        those that change any loss at all, with the whole plan's verdict.
        """
        names = list(plan.techniques)
        if len(names) > 1 and self._affords(plan, checks=2):
            self.progress.stage("looking for the technique by which the training departs")
            with self.trials.limit.ending(self.budget.looks_most(plan)):
                how = (*self._measure(plan), self.seed, self.budget.guard_steps(plan))
                alone = each_alone(self.trials, plan, *how, before=verdict.after)
            guilty = {name: found for name, found in alone.items() if not found.passed}
            if guilty:
                return guilty
            names = [name for name in names if not (name in alone and _is_untouched(alone[name]))] or names
        return {max(names, key=self._likely_to_blame): verdict}

    def _likely_to_blame(self, name: str) -> tuple[bool, int]:
        """What computes the model and its update otherwise comes before what only surrounds it; then the
        riskiest.
        """
        technique = CATALOG[name]
        return technique.layer == "application", RISKS.index(technique.risk_for(self.facts))

    def _measure(self, plan: Plan) -> tuple[bool, str]:
        """Whether it may draw different numbers, and the lowest precision it computes in."""
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
        # A lower precision can draw different numbers, from the same distribution: randn_like of bfloat16.
        drawn = verdict.differs_in("streams") or verdict.parts_by_draws
        if drawn and not draws and RISKS.index("draws") <= RISKS.index(self.risk):
            verdict = judged(True)
        return verdict

    def _checked(self, plan: Plan, check: Check) -> GuardVerdict:
        verdict = self._timed(plan, check)
        if verdict.why_not in _BY_CHANCE and self._affords(plan):
            self.progress.stage("checking once more, as accuracy could not be checked")
            verdict = self._timed(plan, check)
        return verdict

    def _timed(self, plan: Plan, check: Check) -> GuardVerdict:
        """The verdict of ``check`` within the time left for it."""
        if not self._affords(plan):
            needed = self.budget.too_little(plan, tuple(plan.techniques))
            return GuardVerdict("not checked", why_not="budget", budget=needed)
        limit, steps = self.trials.limit, self.budget.guard_steps(plan)
        began = limit.clock()
        with limit.ending(self.budget.guard_most(plan)):
            verdict = check(plan, steps)
        if verdict.why_not == "budget":  # it was stopped, so that the least that a claim needs still fits
            needed = self.budget.too_little(plan, tuple(plan.techniques))
            verdict = replace(verdict, budget=needed)
        if verdict.steps:  # one that compared none does not predict the next
            took = limit.clock() - began if verdict.first_seconds is None else verdict.first_seconds
            self.budget.guarded(plan, took, steps)
        return verdict

    def _stopped(
        self, names: Sequence[str], plan: Plan, why: Decision, verdict: GuardVerdict
    ) -> Iterator[Tried]:
        """A row for each of ``names``, reported as it is made."""
        reason = Reason(decision=why, guard=verdict)
        for name in names:
            row = Tried(name, plan.techniques[name], None, plan, False, reason, "guard")
            self.progress.tried(row)
            yield row


def too_few_steps(rhythm: Rhythm) -> list[str]:
    """Why a training that ends so soon cannot be tuned: an accuracy that cannot be checked is never claimed
    to hold. Empty if it can, or if neither its end nor its loops told how long it is.
    """
    seen, planned = rhythm.steps_in_all, rhythm.planned_steps
    steps = seen if seen is not None else planned
    if steps is None or steps >= LEAST_STEPS:
        return []
    ends, source, more = f"it ends after {counted(steps, 'training step')}", "", ""
    if seen is None:
        source = ", as the loops say that it is in"
        more = "; if it trains on after these, name a longer --budget, so that more of it is watched"
    return [
        f"{ends}{source}, and accuracy is checked over at least {LEAST_STEPS}. Give it more epochs or more "
        f"data (only the first steps are used){more}; hasten profile shows where its time goes as it is"
    ]


def too_late(tried: Sequence[Tried], budget: Budget) -> GuardVerdict | None:
    """The verdict if there was no time to check and confirm anything that was found."""
    late = {row.technique: row.reason.budget for row in tried if row.reason.decision == "too late"}
    enough = max((budget for budget in late.values() if budget is not None), default=None)
    if enough is None:
        return None
    plan = Plan({row.technique: row.settings for row in tried if row.technique in late})
    needed = replace(budget.too_little(plan, tuple(late)), enough=int(enough))
    return GuardVerdict("not checked", why_not="budget", budget=needed)


def _is_untouched(verdict: GuardVerdict) -> bool:
    """Whether every loss equals the baseline's bit for bit."""
    return verdict.loss_curve.deviation == 0.0
