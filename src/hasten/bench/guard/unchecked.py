"""The verdict on a training that could not be watched: not checked, and why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ...errors import WorkerError
from ...inside.techniques.catalog import CATALOG
from ...records.plan import Plan
from ...records.trial import Proof
from ...records.verdict import GuardVerdict
from ..workers.ending import (
    BudgetOver,
    Killed,
    PlanRefused,
    ScriptOver,
    Silence,
)


def not_checked(error: PlanRefused | ScriptOver | WorkerError, changes: tuple[str, ...] = ()) -> GuardVerdict:
    """The verdict if ``error`` interrupted the check: it says nothing about the plan's accuracy."""
    refused = error.technique if isinstance(error, PlanRefused) else ""
    return GuardVerdict(
        "not checked", changes=changes, why_not=_why_not(error), refused=refused, failure=str(error)
    )


def unless_idle(verdict: GuardVerdict, plan: Plan, proofs: Sequence[Proof]) -> GuardVerdict:
    """``verdict``, unless it passes a technique for steps that had no effect in them: for that one nothing
    was compared.
    """
    found = {proof.technique: proof for proof in proofs}
    for name in plan.techniques if verdict.passed else ():
        proof = found.get(name, Proof(name, False, "it was never put in force"))
        if "steps" in CATALOG[name].parts and not proof.effective:
            why = f"{name} had no effect in the training that was compared ({proof.evidence})"
            return replace(verdict, accuracy="not checked", why_not="idle", refused=name, failure=why)
    return verdict


def _why_not(error: PlanRefused | ScriptOver | WorkerError) -> str:
    """The reason, as in GuardVerdict."""
    if isinstance(error, PlanRefused):
        return "refused"
    if isinstance(error, ScriptOver):
        return "short" if error.ended.how == "completed" else "script"
    if isinstance(error, BudgetOver):
        return "budget"
    if isinstance(error, Killed):
        return "killed"
    return "silent" if isinstance(error, Silence) else "ended"
