"""What is said of a training that could not be watched: nothing, and why."""

from __future__ import annotations

from ...errors import WorkerError
from ...records.verdict import GuardVerdict
from ..workers.ending import (
    BudgetOver,
    Killed,
    PlanRefused,
    ScriptOver,
    Silence,
)


def not_checked(error: PlanRefused | ScriptOver | WorkerError, changes: tuple[str, ...] = ()) -> GuardVerdict:
    """The verdict where ``error`` came between: it says nothing of the plan's accuracy."""
    refused = error.technique if isinstance(error, PlanRefused) else ""
    return GuardVerdict(
        "not checked", changes=changes, why_not=_why_not(error), refused=refused, failure=str(error)
    )


def _why_not(error: PlanRefused | ScriptOver | WorkerError) -> str:
    """As in GuardVerdict."""
    if isinstance(error, PlanRefused):
        return "refused"
    if isinstance(error, ScriptOver):
        return "short" if error.ended.how == "completed" else "script"
    if isinstance(error, BudgetOver):
        return "budget"
    if isinstance(error, Killed):
        return "killed"
    return "silent" if isinstance(error, Silence) else "ended"
