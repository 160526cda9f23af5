"""Which of the confirmed plans a tune claims.

A plan that shortens other parts of a run than its steps is confirmed over whole stretches, by few long pairs.
The part of it that speeds up steps is confirmed alone as well, as it would be without the rest
(``Budget.confirmations``). If the whole is confirmed, that is the claim, with the number for whole stretches;
otherwise the steps' part is claimed, if that is confirmed, and the rest left out. If a technique has no
effect in fresh processes, the plan without it is confirmed instead, as far as there is time: it was not
chosen by its speed.

That is one claim out of two possible ones. To keep false claims at 1% of all tunes and not 2%, each is held
to half of the error; if the steps' part is confirmed by that, the whole may use all of it. Source: Holm, A
simple sequentially rejective multiple test procedure, Scandinavian Journal of Statistics 6 (1979).

The guard has checked the whole plan. What acts outside of steps changes none of them, so its verdict holds
for the rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..bench.comparing.decisions import Effort
from ..inside.techniques.catalog import CATALOG
from ..records.plan import BASELINE, Plan
from ..records.reasons import Reason
from ..records.result import Tried
from ..records.trial import Trial
from ..records.verdict import GuardVerdict
from .conclusion import may_be_claimed, too_early

_OF_EVALUATIONS = ("evaluation", "printed")  # as in ``records.comparison.SingleSteps.compared``


def beside(trials: Sequence[Trial], effort: Effort) -> Effort:
    """``effort`` after ``trials``: if one of these is claimed, all of the error is left, and that decides
    whether more processes are worth starting.
    """
    return replace(effort, claims=1) if any(map(may_be_claimed, trials)) else effort


def settled(plan: Plan, trials: Sequence[Trial]) -> Trial | None:
    """The confirmation that decides a tune of ``plan``; None if there was time for none, or only for
    one of a part that confirms nothing.
    """
    whole = next((trial for trial in trials if trial.b == plan), None)
    part = next((trial for trial in trials if trial.b != plan and may_be_claimed(trial)), None)
    if part is None:
        return whole
    if whole is not None and may_be_claimed(alone := replace(whole, claims=1)):
        return alone
    return part


def fallback(plan: Plan, trials: Sequence[Trial]) -> Plan:
    """What to confirm after ``trials``: ``plan`` without what had no effect in fresh processes, if nothing
    else was confirmed. The baseline if there is no such plan.
    """
    idle = {proof.technique for trial in trials for proof in trial.proofs if not proof.effective}
    rest = plan.only(set(plan.techniques) - idle)
    known = not idle or any(trial.b == rest or may_be_claimed(trial) for trial in trials)
    return BASELINE if known else rest


def next_best(plan: Plan, trials: Sequence[Trial]) -> Plan:
    """What is left of ``plan`` once it has failed in fresh processes, though it trained in the search: all
    but the technique that joined it last. The baseline if it did not fail, or if nothing is left. No speed
    has chosen it.
    """
    if not trials or any(map(may_be_claimed, trials)):
        return BASELINE
    last = trials[-1]
    if last.failure is None or last.cut_short or last.b != plan:
        return BASELINE
    return plan.without(list(plan.techniques)[-1])


def failed_with(plan: Plan, rest: Plan, trials: Sequence[Trial]) -> list[Tried]:
    """The rows of what went from ``plan``, as it failed."""
    failure = trials[-1].failure or ""
    gone = {name: how for name, how in plan.techniques.items() if name not in rest.techniques}
    why = Reason("failed", "left out", failure=failure)
    return [Tried(name, how, None, rest, False, why, "pairs") for name, how in gone.items()]


def left_out(plan: Plan, trials: Sequence[Trial], claimed: Plan) -> list[Tried]:
    """A row for each technique of ``plan`` that is not ``claimed``, though others are."""
    whole = next((trial for trial in trials if trial.b == plan), None)
    rest = {name: how for name, how in plan.techniques.items() if name not in claimed.techniques}
    return [
        Tried(name, how, None, claimed, False, _why(name, whole), "stretches") for name, how in rest.items()
    ]


def without_evaluations(verdict: GuardVerdict | None, claimed: Plan) -> GuardVerdict | None:
    """The verdict without what was compared of evaluations, if what is claimed leaves these as they are."""
    if verdict is None or any("evaluation" in CATALOG[name].parts for name in claimed.techniques):
        return verdict
    rest = {what: row for what, row in verdict.numerics.compared.items() if what not in _OF_EVALUATIONS}
    return replace(verdict, numerics=replace(verdict.numerics, compared=rest))


def _why(name: str, whole: Trial | None) -> Reason:
    parts = CATALOG[name].parts
    if whole is None or too_early(whole):
        return Reason("not measured", "left out", parts=parts)
    if whole.failure is not None:
        return Reason("failed", "left out", failure=whole.failure, parts=parts)
    return Reason("no gain", "left out", parts=parts)
