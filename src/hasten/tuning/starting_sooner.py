"""Where no gain in steps is certain: what shortens the start, for runs that are short.

All that applies is confirmed at once, as no comparison has chosen it, and together with what steadies steps:
without torch's compiler in it, a heap is so small that glibc's allocator gives it back after each step, and
takes it again. The claim is of a whole run with these arguments, by the starts and steps of fresh processes;
``hasten run`` itself, for which a plain run does not pay, is a part of that. A plan under which steps are
certainly slower is no plan, however soon it starts.

It is a second claim that a tune may make after the one about steps, and it is tested twice, by steps and by
runs: each may use a twentieth of the error of one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from statistics import median

from ..bench.comparing.decisions import CLAIM_LEAST_SPEEDUP, ONE_IN, Effort, is_slower, slow_in
from ..bench.comparing.epoch_ends import EpochEnds
from ..bench.comparing.statistics import interval
from ..inside.techniques.catalog import CATALOG
from ..inside.techniques.exclusion import Exclusion
from ..records.phases import step_seconds
from ..records.plan import BASELINE, Plan
from ..records.reasons import Decision, Reason
from ..records.reasons import Found as WhatFound
from ..records.result import RUNS, START, Tried
from ..records.run_forecast import SeenProcess
from ..records.trial import Trial
from .accuracy import Accuracy, Held
from .candidate import Candidate
from .conclusion import Sooner, may_be_claimed, too_early
from .confirming import fallback, left_out
from .recording import LoggedBench
from .run_evidence import around_steps
from .starts import is_for_start

_CLAIMS = 20  # as if so many claims were at stake, of which these are two
_MOST_SAVED = 0.6  # of a start; seen, 0.55


@dataclass(frozen=True)
class PlannedRun:
    """A run with these arguments: so many ``steps``, and the seconds of what is ``around`` them, between and
    after. ``start_seconds``: of a plain process that started alone, to its first step's end.
    ``own_start``: what ``hasten run`` takes for itself, under a plan with next to nothing in it.
    """

    steps: int
    around: float
    start_seconds: float
    own_start: float

    def may_gain(self, step_seconds: float) -> bool:
        """Whether a shorter start can come to a claim: all that it saves of a run is more than what one needs
        where nothing scatters.
        """
        whole = self.start_seconds + self._steps(step_seconds) + self.around
        left = whole - _MOST_SAVED * self.start_seconds + self.own_start
        unseen = slow_in(self._steps(step_seconds) / left) / ONE_IN
        return math.log(whole / left) > math.log(CLAIM_LEAST_SPEEDUP) + unseen

    def over_runs(self, trial: Trial) -> Trial:
        """``trial``, whose processes trained some steps, as if they had trained the whole run. Processes of a
        pair start side by side, so each takes longer than alone: their ratio counts.
        """
        usual, pairs = self._usual_start(trial), [*zip(trial.processes_a, trial.processes_b, strict=True)]
        before = [self._plain(a, usual) for a, _ in pairs]
        after = [self._planned(a, b, usual * b.script_start / a.script_start) for a, b in pairs]
        ratios = tuple(math.log(planned / plain) for plain, planned in zip(before, after, strict=True))
        in_steps = (self._steps(b.step_seconds) / whole for (_, b), whole in zip(pairs, after, strict=True))
        return replace(
            trial,
            parts=(START,),
            steps_share=max(in_steps),
            log_ratios=ratios,
            ratio=interval(ratios, "pairs"),
            step_log_ratios=trial.log_ratios,
        )

    def _usual_start(self, trial: Trial) -> float:
        alone = self.start_seconds - median(one.own_seconds for one in trial.processes_a)
        together = median(one.script_start for one in trial.processes_a)
        return min(alone, together) if alone > 0 else together

    def _plain(self, one: SeenProcess, start: float) -> float:
        return start + one.lead_seconds + self._steps(one.step_seconds) + self.around

    def _planned(self, a: SeenProcess, b: SeenProcess, start: float) -> float:
        own = self.own_start + max(0.0, b.own_seconds - a.own_seconds)  # to import the plan's techniques
        return own + b.setup_seconds + self._plain(b, start)

    def _steps(self, each: float) -> float:
        """Seconds of all but the first, which belongs to the start."""
        return (self.steps - 1) * each


@dataclass(frozen=True)
class StartingSooner:
    """``own_start``: as in ``PlannedRun``; None if it is not known, or ranks are timed: then nothing is
    claimed of a run.
    """

    bench: LoggedBench
    accuracy: Accuracy
    ends: EpochEnds
    own_start: Callable[[], float | None]

    def found(self, candidates: Sequence[Candidate], rest: Held, trial: Trial | None) -> Sooner | None:
        """None if there is nothing to try, or no time; if a run is not known to be so short that its start
        counts; or if the ``rest`` is claimed by its ``trial``, or could not be checked.
        """
        unchecked = rest.verdict is not None and rest.verdict.unchecked
        if unchecked or (trial is not None and may_be_claimed(trial)):
            return None
        seen = self.accuracy.facts.observation
        stopped = {row.technique for row in rest.stopped if row.reason.guard is not None}
        plan, run = together([one for one in candidates if one.technique.name not in stopped]), self._run()
        if not plan or run is None or not run.may_gain(step_seconds(seen)):
            return None
        if not self.accuracy.budget.affords_guard(plan):
            return None
        self.accuracy.progress.stage("no gain in steps is certain: checking what shortens the start")
        held = self.accuracy.held_part(plan)
        second = self._confirmed(held.plan)
        if second is not None:
            second = self._confirmed(fallback(held.plan, [second])) or second
        if second is None or held.verdict is None:
            return Sooner(tuple(plan.techniques), held.stopped) if held.stopped else None
        row, second = judged(second, self._run() or run)
        self.accuracy.progress.tried(row)
        left = left_out(rest.plan, [one for one in (trial,) if one is not None], second.b) if row.kept else []
        return Sooner(tuple(plan.techniques), (*held.stopped, *left, row), second, held.verdict)

    def _run(self) -> PlannedRun | None:
        """As it is known by now."""
        seen = self.accuracy.facts.observation
        known = around_steps(seen, self.ends)
        own = self.own_start() if known is not None else None
        return PlannedRun(*known, seen.start_seconds, own) if known is not None and own is not None else None

    def _confirmed(self, plan: Plan) -> Trial | None:
        """None if nothing in the plan shortens the start, or there is no time for it."""
        shorter = any(is_for_start(name, CATALOG) for name in plan.techniques)
        efforts = self.accuracy.budget.confirmations(plan) if shorter else ()
        if not efforts:
            return None
        self.accuracy.progress.stage("confirming in fresh processes")
        return self.bench.confirm(plan, Effort(efforts[0][1].pairs, claims=_CLAIMS))


def together(candidates: Sequence[Candidate]) -> Plan:
    """All that shortens the start alone, and what steadies steps with it; of two that exclude each other, the
    first. The baseline if nothing shortens the start.
    """
    starts = [one for one in candidates if is_for_start(one.technique.name, CATALOG)]
    steadying = [one for one in candidates if one.technique.steadies] if starts else []
    plan = BASELINE
    for candidate in (*starts, *steadying):
        if not isinstance(candidate.fitting(plan, CATALOG), Exclusion):
            plan = plan.adding(candidate.technique.name, candidate.options[0])
    return plan


def judged(trial: Trial, run: PlannedRun) -> tuple[Tried, Trial]:
    """Whether ``trial`` is claimed, as a row, and what is: its steps if these gain, else the whole run."""
    failed = trial.failure is not None and not trial.cut_short
    processes = (*trial.processes_a, *trial.processes_b)
    known = all(one.script_start > 0 and one.step_seconds > 0 for one in processes)
    if known and not (may_be_claimed(trial) or failed or too_early(trial) or is_slower(trial.ratio)):
        trial = run.over_runs(trial)
    kept = may_be_claimed(trial)
    found, decision = _found(trial, failed, kept)
    over = (START, "steps") if trial.parts else ("steps",)
    reason = Reason(found, decision, trial.failure or "", names=tuple(trial.b.techniques), parts=over)
    row = Tried(
        technique=START,
        settings={},
        ratio=trial.ratio,
        against=BASELINE,
        kept=kept,
        reason=reason,
        method=RUNS,
        setup_seconds=trial.setup_seconds,
        together=trial.b,
        parts=trial.parts,
        spent=trial.spent,
    )
    return row, trial


def _found(trial: Trial, failed: bool, kept: bool) -> tuple[WhatFound, Decision]:
    if failed:
        return "failed", ""
    if kept:
        return "gain", ""
    if trial.ratio is None or too_early(trial):
        return "not measured", ""
    if is_slower(trial.ratio):
        return "slower", ""
    return ("gain", "uncertain") if trial.ratio.high < 1 else ("no gain", "")
