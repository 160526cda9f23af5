"""What a row of the search says about its comparison."""

from __future__ import annotations

from dataclasses import replace

from ..bench.comparing.decisions import gains, is_slower
from ..records.plan import Plan
from ..records.reasons import Decision, Reason, SetUp
from ..records.trial import Trial
from .resolution import resolution_of

_SETUP_WORTH_A_WORD = 1.0  # seconds


def reason_of(trial: Trial, kept: bool, decision: Decision = "") -> Reason:
    """What was found, what a reader of the number should know, and what was decided."""
    if trial.failure is not None:
        failure = _without_its_name(trial, trial.failure)
        return Reason("failed", decision, failure=failure, parts=trial.parts, late=trial.late)
    gained = kept or (trial.never_pays and gains(trial.ratio))
    found = Reason(
        decision=decision,
        set_up=_set_up(trial, gained),
        parts=trial.parts,
        late=trial.late,
        remarks=tuple(one.remark for one in trial.proofs if one.remark and _differs(trial, one.technique)),
    )
    if gained:
        return replace(found, found="gain")
    if trial.ratio is None:
        return replace(found, found="not measured")
    if is_slower(trial.ratio):
        return replace(found, found="slower")
    return replace(found, found="no gain", resolution=resolution_of(trial.ratio))


def _without_its_name(trial: Trial, failure: str) -> str:
    """A row says already which technique it is about."""
    tried = [name for name in trial.b.techniques if _differs(trial, name)]
    return failure.removeprefix(f"{tried[0]}: ") if len(tried) == 1 else failure


def _differs(trial: Trial, name: str) -> bool:
    return trial.a.techniques.get(name) != trial.b.techniques.get(name)


def _set_up(trial: Trial, gained: bool) -> SetUp | None:
    """What it takes and when it pays off, if worth mentioning."""
    if trial.once_seconds < _SETUP_WORTH_A_WORD and not (gained and trial.never_pays):
        return None
    return SetUp(
        trial.once_seconds,
        trial.pays_after if gained else None,
        trial.script_steps if gained and trial.never_pays else None,
        trial.slower_start,
    )


def reason_together(trial: Trial, together: Plan, kept: bool, again: bool) -> Reason:
    """The same for techniques tried as one. ``again``: they will be tried again, without some of them."""
    names = tuple(together.techniques)
    if kept:
        return Reason("gain", names=names)
    if trial.never_pays and gains(trial.ratio):
        return Reason("gain", "not kept", set_up=_set_up(trial, gained=True), names=names)
    if trial.failure is not None:
        return Reason("failed", "again" if again else "singly", trial.failure, names=names)
    if is_slower(trial.ratio):
        return Reason("slower", "singly", names=names)
    resolution = resolution_of(trial.ratio) if trial.ratio is not None else None
    return Reason("no gain", "none singly", resolution=resolution, names=names)
