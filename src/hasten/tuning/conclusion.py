"""From measurements to a result: what may be claimed, and why not more."""

from __future__ import annotations

import math
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from .. import __version__
from ..bench.comparing.decisions import (
    CLAIM_LEAST_PROCESSES,
    is_gain,
    is_slower,
    margin,
    slow_in,
    with_slow,
)
from ..bench.comparing.epoch_ends import EpochEnds
from ..bench.comparing.statistics import interval
from ..inside.techniques.threads import Threads
from ..records.cause import Cause
from ..records.caution import Caution
from ..records.conclusion import Conclusion
from ..records.curve import ThreadCurve
from ..records.facts import Facts
from ..records.observation import Observation
from ..records.phases import samples_per_step, timed_step_seconds
from ..records.plan import BASELINE, Plan
from ..records.reasons import WhyNot
from ..records.result import START, Refused, Tried, TuneResult
from ..records.run_forecast import RunForecast
from ..records.run_pace import TunedPace
from ..records.trial import Ratio, Trial
from ..records.verdict import GuardVerdict, Shortfall, TooLittleTime
from ..records.waiting import waiting_threads
from .resolution import (
    SearchBudget,
    looks_in,
    resolution_of_confirmation,
    resolution_of_search,
    why_unsure,
)
from .tuned_pace import tuned_pace


@dataclass(frozen=True)
class Sooner:
    """What was found of a plan that shortens the start. ``names``: what was tried for it; ``rows`` say with
    which results. ``trial``: None if there was none; the last row says whether it is claimed.
    """

    names: tuple[str, ...]
    rows: tuple[Tried, ...]
    trial: Trial | None = None
    verdict: GuardVerdict | None = None


@dataclass(frozen=True)
class Found:
    """What a tune has learnt about a script, and about what was tried on it. ``spent``: seconds it has taken,
    confirmation included.
    """

    facts: Facts
    spent: float
    protection: str = ""
    causes: Sequence[Cause] = ()
    refused: Sequence[Refused] = ()
    tried: Sequence[Tried] = ()
    untried: Mapping[str, float | None] = field(default_factory=dict)  # for lack of time: the budget for it
    verdict: GuardVerdict | None = None  # on what the search found
    trial: Trial | None = None  # the confirmation; None: there was nothing to confirm
    threads: ThreadCurve | None = None
    warnings: Sequence[Caution] = ()
    ends: EpochEnds | None = None  # what came between epochs meanwhile
    longer: SearchBudget | None = None  # None: no budget is named for a longer search
    short: Shortfall | None = None  # where the search ended, what the tune's end was foreseen to take
    sooner: Sooner | None = None  # where nothing else may be claimed

    def with_start(self) -> Found:
        """With what was found of the start in its place: the claim, if there is one."""
        sooner = self.sooner
        if sooner is None:
            return self
        refused = [
            row
            for row in self.refused
            if row.technique not in sooner.names or all(why.code != "only the start" for why in row.reasons)
        ]
        found = replace(self, tried=(*self.tried, *sooner.rows), refused=refused)
        if sooner.trial is None or not sooner.rows[-1].kept:
            return found
        return replace(found, trial=sooner.trial, verdict=sooner.verdict)


def _still_refused(row: Refused, plan: Plan) -> bool:
    """Not what says only that a technique does not apply by itself, where others in the plan carry it; and
    what is in the plan again only if it is.
    """
    codes, is_in_plan = {why.code for why in row.reasons}, row.technique in plan.techniques
    if codes == {"said"}:
        return not is_in_plan
    return is_in_plan or "before the start" not in codes


def _pace(observation: Observation, trial: Trial) -> TunedPace | None:
    """None where each evaluation of a closure is a step in trials: in a run, an update is."""
    return None if observation.steps_are_evaluations else tuned_pace(trial)


def _of_the_moment(plan: Plan, facts: Facts) -> list[Caution]:
    """What of ``plan`` is right as long as other programs run."""
    threads = plan.techniques.get(Threads.name, {}).get("count")
    fewer = isinstance(threads, int) and threads < facts.observation.threads
    return [Caution("fewer threads")] if fewer and waiting_threads(facts) is not None else []


def conclude(found: Found, longer: RunForecast | None = None) -> TuneResult:
    """The result of a tune. ``longer``: a run under the plan, which is sure to take longer than a plain one.
    Then the plan is not given: outside of the steps that were compared, it costs more than it saves.
    """
    trial, verdict, observation = found.trial, found.verdict, found.facts.observation
    guarded = verdict is not None and verdict.passed
    claimed = guarded and trial is not None and may_be_claimed(trial) and longer is None
    unchecked = trial is None and verdict is not None and verdict.unchecked
    seconds, samples = _plain_seconds(observation, trial), samples_per_step(observation)
    ratio = stated(trial) if trial is not None and claimed else None
    plan = trial.b if trial is not None and claimed else BASELINE
    others = [row for row in found.refused if _still_refused(row, plan)]
    late = [Refused(name, (WhyNot("no time", budget=enough),)) for name, enough in found.untried.items()]
    return TuneResult(
        outcome="gain" if claimed else "not-checked" if unchecked else "no-gain",
        reason=Conclusion("longer run", run=longer) if longer is not None else _reason(found, claimed),
        plan=plan,
        speedup=ratio.inverted() if ratio is not None else None,
        ratio=ratio,
        pace=_pace(observation, trial) if trial is not None and claimed else None,
        looks=looks_in(trial) if trial is not None and claimed else None,
        parts=trial.parts if trial is not None and claimed else (),
        shortened=trial.shortened if trial is not None and claimed else 1.0,
        steps_ratio=interval(trial.step_log_ratios, "pairs") if trial is not None and claimed else None,
        measured=trial.ratio if trial is not None else None,
        baseline_step_seconds=seconds,
        baseline_samples_per_second=samples / seconds if samples else None,
        observation=observation,
        tried=tuple(found.tried),
        refused=(*others, *late),
        guard=verdict,
        setup_seconds=trial.setup_seconds if trial is not None and claimed else 0.0,
        lasting_seconds=trial.lasting_seconds if trial is not None and claimed else 0.0,
        breakeven_steps=_breakeven_steps(trial) if trial is not None and claimed else None,
        script_steps=_script_steps(found),
        causes=tuple(found.causes),
        threads=found.threads,
        protection=found.protection,
        warnings=(*found.warnings, *_of_the_moment(plan, found.facts)),
        machine=found.facts.machine.identity,
        cpu_flags=found.facts.machine.cpu_flags,
        versions=versions_of(found.facts),
    )


def _plain_seconds(seen: Observation, trial: Trial | None) -> float:
    """Of a plain step: as confirmed, in many processes, or else as watched in the first one."""
    confirmed = trial.step_seconds_a if trial is not None and not trial.parts else None
    return confirmed or timed_step_seconds(seen)


def _breakeven_steps(trial: Trial) -> int | None:
    """None where the claim is of a whole run, set-up included."""
    return None if trial.parts == (START,) else trial.breakeven_steps


def versions_of(facts: Facts) -> dict[str, str]:
    """The versions that a plan depends on."""
    return {
        "hasten": __version__,
        "torch": facts.observation.torch,
        "python": platform.python_version(),
    }


def may_be_claimed(confirmation: Trial) -> bool:
    """Whether it shows a gain."""
    if confirmation.failure is not None:
        return False
    slow = slow_in(confirmation.steps_share)
    return is_gain(confirmation.log_ratios, confirmation.looks, confirmation.claims, slow)


def _script_steps(found: Found) -> int | None:
    if found.ends is not None and found.ends.varies:
        return None
    of_trial = found.trial.script_steps if found.trial is not None else None
    return of_trial or (found.ends.script_steps if found.ends is not None else None)


def stated(trial: Trial) -> Ratio | None:
    """The claim: as the pairs found it or, if additional processes were slow, averaged over these, too, with
    an interval wide enough for both.
    """
    slower = math.exp(with_slow(trial.log_ratios, trial.looks))
    if trial.ratio is None or slower == 1.0:
        return trial.ratio
    return replace(trial.ratio, value=trial.ratio.value * slower, high=trial.ratio.high * slower)


def _reason(found: Found, claimed: bool) -> Conclusion:
    trial, verdict = found.trial, found.verdict
    if trial is None:
        return _unconfirmed_reason(found)
    if claimed:
        return Conclusion("confirmed")
    if trial.failure is not None:
        return Conclusion("failed", trial.failure)
    if verdict is None or not verdict.passed:
        return Conclusion("not seen")
    if is_slower(trial.ratio):
        return Conclusion("slower")
    if margin(trial.log_ratios, trial.claims) > 0:
        return Conclusion("unsure", unsure=why_unsure(trial, found.spent))
    return Conclusion("noise", resolution=resolution_of_confirmation(trial, found.spent))


def _unconfirmed_reason(found: Found) -> Conclusion:
    """Why there was nothing to confirm."""
    if found.verdict is not None and found.verdict.unchecked:
        return Conclusion("not checked")
    if found.verdict is not None and not found.verdict.passed:
        return Conclusion("not held")
    short = found.short if found.untried else None
    if found.tried:
        resolution = resolution_of_search(found.tried, found.longer)
        return Conclusion("nothing faster", resolution=resolution, short=short)
    return Conclusion("no time" if found.untried else "nothing applies", short=short)


def too_early(trial: Trial) -> bool:
    """Whether the budget ended before a confirmation had the pairs that a claim needs."""
    return trial.cut_short and len(trial.log_ratios) < CLAIM_LEAST_PROCESSES


def unconfirmed(verdict: GuardVerdict, needed: TooLittleTime) -> GuardVerdict:
    """``verdict`` on a plan that the budget was too short to confirm."""
    return replace(verdict, accuracy="not checked", why_not="budget", budget=needed)
