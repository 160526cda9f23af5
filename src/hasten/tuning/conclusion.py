"""From measurements to a result: what may be claimed, and the plan that is written."""

from __future__ import annotations

import math
import platform
import shlex
from collections.abc import Sequence
from dataclasses import replace
from datetime import date

from .. import __version__
from ..bench.comparing.decisions import (
    CLAIM_LEAST_PROCESSES,
    is_gain,
    is_slower,
    margin,
    with_slow,
)
from ..errors import OutputLost
from ..lost_writes import why_lost
from ..plans.files import SavedPlan, write_plan
from ..records.cause import Cause
from ..records.facts import Facts
from ..records.phases import samples_per_step, step_seconds
from ..records.plan import BASELINE, Plan
from ..records.trial import Ratio, Trial
from ..records.verdict import (
    GuardVerdict,
    Refused,
    TooLittleTime,
    Tried,
    TuneResult,
)
from ..report.guard import reasons
from ..scripts.workspace import Script, Workspace
from .resolution import SearchBudget, confirmation_words, looks_words, search_words, unseen_words

QUALITY_UNKNOWN = "whether the quality of the model is held was not judged: hasten verify does that"


def conclude(
    facts: Facts,
    protection: str,
    trial: Trial | None,
    verdict: GuardVerdict | None,
    tried: Sequence[Tried],
    untried: Sequence[str],
    refused: Sequence[Refused],
    causes: Sequence[Cause],
    spent: float,
    search_budget: SearchBudget | None = None,
) -> TuneResult:
    """The result of a tune whose confirmation is ``trial`` (None: there was nothing to confirm).

    ``spent``: seconds that the tune has taken, confirmation included. Without ``search_budget`` no budget is
    named for a longer search.
    """
    guarded = verdict is not None and verdict.passed
    sound = guarded and trial is not None and trial.failure is None
    claimed = sound and trial is not None and is_gain(trial.log_ratios, trial.looks)
    unchecked = trial is None and verdict is not None and verdict.unchecked
    seconds, samples = step_seconds(facts.observation), samples_per_step(facts.observation)
    ratio = stated(trial) if trial is not None and claimed else None
    late = [Refused(name, ("the budget ended before it could be tried",)) for name in untried]
    return TuneResult(
        outcome="gain" if claimed else "not-checked" if unchecked else "no-gain",
        reason=_reason(trial, verdict, tried, untried, claimed, spent, search_budget),
        plan=trial.b if trial is not None and claimed else BASELINE,
        speedup=ratio.inverted() if ratio is not None else None,
        ratio=ratio,
        alone=looks_words(trial.looks) if trial is not None and claimed else "",
        measured=trial.ratio if trial is not None else None,
        baseline_step_seconds=seconds,
        baseline_samples_per_second=samples / seconds if samples else None,
        observation=facts.observation,
        tried=tuple(tried),
        refused=(*refused, *late),
        guard=verdict,
        setup_seconds=trial.setup_seconds if trial is not None and claimed else 0.0,
        breakeven_steps=trial.breakeven_steps if trial is not None and claimed else None,
        script_steps=trial.script_steps if trial is not None else None,
        causes=tuple(causes),
        protection=protection,
        machine=facts.machine.identity,
        cpu_flags=facts.machine.cpu_flags,
        versions={
            "hasten": __version__,
            "torch": facts.observation.torch,
            "python": platform.python_version(),
        },
    )


def stated(trial: Trial) -> Ratio | None:
    """What is claimed: as the pairs found it, and where processes started besides were slow, with these in
    the mean, and the interval wide enough for both.
    """
    slower = math.exp(with_slow(trial.log_ratios, trial.looks))
    if trial.ratio is None or slower == 1.0:
        return trial.ratio
    return replace(trial.ratio, value=trial.ratio.value * slower, high=trial.ratio.high * slower)


def _reason(
    trial: Trial | None,
    verdict: GuardVerdict | None,
    tried: Sequence[Tried],
    untried: Sequence[str],
    claimed: bool,
    spent: float,
    search_budget: SearchBudget | None,
) -> str:
    if claimed and trial is not None and verdict is not None:
        gain = "the gain in speed" if verdict.changes else "the gain"
        quality = f"; {QUALITY_UNKNOWN}" if verdict.changes else ""
        return f"{gain} is confirmed in fresh processes{quality}"
    if trial is None and verdict is not None and verdict.why_not == "budget":
        return reasons(verdict)[0]
    if trial is None and verdict is not None and verdict.unchecked:
        return f"accuracy could not be checked: {'; '.join(reasons(verdict))}"
    if trial is None and verdict is not None and not verdict.passed:
        return "what was faster did not hold accuracy"
    if trial is None and untried and not tried:
        return "the budget ended before anything could be tried"
    if trial is None and tried:
        return f"nothing that was tried is faster{search_words(tried, search_budget)}"
    if trial is None:
        return "no technique applies here"
    if trial.failure is not None:
        return f"the plan failed in fresh processes: {trial.failure}"
    if verdict is None or not verdict.passed:
        return "whether the plan holds accuracy was not seen"
    if is_slower(trial.ratio):
        return "what looked faster is slower in fresh processes"
    if margin(trial.log_ratios) > 0:
        return unseen_words(trial, spent)
    return (
        "what looked faster was not confirmed in fresh processes: it is within the noise"
        f"{confirmation_words(trial, spent)}"
    )


def too_early(trial: Trial) -> bool:
    """Whether the budget ended before a confirmation had the pairs that a claim needs."""
    return trial.cut_short and len(trial.log_ratios) < CLAIM_LEAST_PROCESSES


def unconfirmed(verdict: GuardVerdict, budget: int) -> GuardVerdict:
    """``verdict`` on a plan for whose confirmation the budget did not suffice; ``budget`` would."""
    return replace(verdict, accuracy="not checked", why_not="budget", budget=TooLittleTime(budget))


def save_plan(workspace: Workspace, result: TuneResult) -> None:
    """Write the plan; without a gain, the empty one, so that an older plan is not mistaken for this
    answer.

    Raises OutputLost where it cannot be written, with the words that train under it.
    """
    script, sources = workspace.script, result.sources
    assert sources is not None
    measured: dict[str, object] = {"date": date.today().isoformat(), "outcome": result.outcome}
    if result.speedup is not None:
        speedup = result.speedup
        measured |= {
            "speedup": round(speedup.value, 3),
            "low": round(speedup.low, 3),
            "high": round(speedup.high, 3),
            "processes": speedup.count,
            **({"alone": result.alone} if result.alone else {}),
        }
        if result.guard is not None and result.guard.changes:
            measured["quality"] = QUALITY_UNKNOWN
    made_for = {
        "script": script.label,
        "digest": sources.script,
        "modules": dict(sources.modules),
        "arguments": list(script.arguments),
        "machine": result.machine,
        "cpu_flags": list(result.cpu_flags),
        **({"nproc_per_node": result.nproc} if result.nproc is not None else {}),
        **result.versions,
    }
    path = workspace.plan_path
    try:
        workspace.make()  # somebody may have cleared all away meanwhile
        write_plan(path, SavedPlan(Plan(result.plan.techniques), made_for, measured))
    except OSError as error:
        told = f"the plan could not be written to {path}: {why_lost(error, path)}"
        raise OutputLost(f"{told}. {_by_hand(script, result)}" if result.plan else told) from None


def _by_hand(script: Script, result: TuneResult) -> str:
    """The command that trains under a plan which is nowhere."""
    words = []
    for name, settings in result.plan.techniques.items():
        rest = ",".join(f"{key}={value}" for key, value in settings.items())
        words += ["--use", shlex.quote(f"{name}:{rest}" if rest else name)]
    gain = f"it trains {result.speedup.value:.2f} times faster" if result.speedup is not None else "train"
    return f"Without it, {gain} by: hasten run {result.rank_options}{' '.join(words)} {script.label}"
