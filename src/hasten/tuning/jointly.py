"""Candidates whose first settings are tried as one, and which of them fit each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..bench.comparing.decisions import gains, is_slower
from ..inside.techniques.exclusion import Catalog, Exclusion
from ..records.plan import Plan
from ..records.reasons import WhyNot
from .candidate import Candidate
from .comparisons import TOGETHER, Comparisons


def tried_together(
    comparisons: Comparisons, plan: Plan, joint: Sequence[Candidate], still_to_do: int, catalog: Catalog
) -> tuple[Plan, Sequence[Candidate]]:
    """``plan`` with the first settings of all of ``joint`` if that gains, and those to be tried alone.

    One without effect is left out and the rest tried again. If the whole is slower, or fails without
    showing which one failed, each is tried alone.
    """
    group = fitting_each_other(comparisons, plan, joint, catalog)
    while len(group) > 1:
        whole = plan
        for candidate in group:
            whole = whole.adding(candidate.technique.name, candidate.options[0])
        if not comparisons.affords(plan, whole):
            break
        trial = comparisons.compare(TOGETHER, plan, whole, comparisons.seconds_left / still_to_do)
        kept = gains(trial.ratio) and not trial.never_pays
        names = {candidate.technique.name for candidate in group}
        idle = {proof.technique for proof in trial.proofs if not proof.effective} & names
        comparisons.record_together(trial, whole.only(names), kept, bool(idle))
        if kept:
            return whole, []
        if trial.failure is None and not is_slower(trial.ratio) and not gains(trial.ratio):
            return plan, []
        if not idle:
            break
        group = [candidate for candidate in group if candidate.technique.name not in idle]
    return plan, group


def fitting_each_other(
    comparisons: Comparisons, plan: Plan, candidates: Sequence[Candidate], catalog: Catalog
) -> list[Candidate]:
    """Those whose first settings can all join ``plan``; of two that exclude each other, the first."""
    found = []
    for candidate in candidates:
        name = candidate.technique.name
        fitting = fitted(comparisons, plan, candidate, catalog) if name not in plan.techniques else None
        if fitting is not None:
            found.append(replace(fitting, together_with=()))
            plan = plan.adding(name, fitting.options[0])
    return found


def fitted(comparisons: Comparisons, plan: Plan, candidate: Candidate, catalog: Catalog) -> Candidate | None:
    """The part of a candidate that can join ``plan``; None if nothing can, and the reason is kept."""
    found = candidate.fitting(plan, catalog)
    if isinstance(found, Exclusion):
        comparisons.leave_out(candidate.technique.name, WhyNot("excluded", str(found)))
        return None
    return found
