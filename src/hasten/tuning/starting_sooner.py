"""Where nothing makes steps faster: what shortens the start, for runs that are short.

All that applies is confirmed at once, as no comparison has chosen it, and together with what steadies steps:
without torch's compiler in it, a heap is so small that glibc's allocator gives it back after each step, and
takes it again. The claim is of a whole run with these arguments, by the starts and steps of fresh processes;
``hasten run`` itself, for which a plain run does not pay, is a part of that. It is a second claim that a tune
may make after the one about steps, so it may use a tenth of the error of one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ..bench.comparing.decisions import Effort, is_slower
from ..bench.comparing.statistics import interval
from ..inside.techniques.catalog import CATALOG
from ..inside.techniques.exclusion import Exclusion
from ..records.plan import BASELINE, Plan
from ..records.reasons import Found as FoundGain
from ..records.reasons import Reason
from ..records.result import Tried
from ..records.run_forecast import SeenProcess
from ..records.trial import Trial
from .accuracy import Accuracy, Held
from .bounds import Bounds
from .candidate import Candidate
from .conclusion import Sooner, may_be_claimed
from .confirming import fallback
from .outside_steps import LARGE_START
from .recording import LoggedBench
from .starts import is_for_start

START = "start"  # name of the row for all of it
_CLAIMS = 10  # as if so many claims were at stake, of which this is one


@dataclass(frozen=True)
class PlannedRun:
    """A run with these arguments: so many ``steps``, and seconds of what comes ``between`` and after them.
    ``command_seconds``: what hasten's own command takes before it starts the script's process.
    """

    steps: int
    between: float
    command_seconds: float

    def over_runs(self, trial: Trial) -> Trial:
        """``trial``, whose processes trained some steps, as if they had trained the whole run."""
        pairs = zip(trial.processes_a, trial.processes_b, strict=True)
        ratios = tuple(math.log(self._planned(b) / self._plain(a)) for a, b in pairs)
        return replace(
            trial,
            parts=("start",),
            log_ratios=ratios,
            ratio=interval(ratios, "pairs"),
            step_log_ratios=trial.log_ratios,
        )

    def _plain(self, one: SeenProcess) -> float:
        return one.script_start + one.lead_seconds + self.steps * one.step_seconds + self.between

    def _planned(self, one: SeenProcess) -> float:
        return self.command_seconds + one.own_seconds + one.setup_seconds + self._plain(one)


@dataclass(frozen=True)
class StartingSooner:
    """``command_seconds``: as in ``PlannedRun``."""

    bench: LoggedBench
    accuracy: Accuracy
    command_seconds: float

    def found(
        self, candidates: Sequence[Candidate], steps: int | None, rest: Held, trial: Trial | None
    ) -> Sooner | None:
        """None if there is nothing to try, or no time; if a start is not known to take a good share of a run,
        which has so many ``steps``; or if the ``rest`` is claimed by its ``trial``, or could not be checked.
        """
        unchecked = rest.verdict is not None and rest.verdict.unchecked
        if steps is None or unchecked or (trial is not None and may_be_claimed(trial)):
            return None
        facts, plan = self.accuracy.facts, together(candidates)
        bounds = Bounds.seen(facts)
        if not plan or bounds.share_of_start(steps) < LARGE_START:
            return None
        if not self.accuracy.budget.affords_guard(plan):
            return None
        self.accuracy.progress.stage("nothing makes steps faster: checking what shortens the start")
        held = self.accuracy.held_part(plan)
        trial = self._confirmed(held.plan)
        if trial is None or held.verdict is None:
            return None
        trial = self._confirmed(fallback(held.plan, [trial])) or trial
        each = facts.observation.start_seconds / bounds.start  # seconds of a step
        run = PlannedRun(steps, steps * bounds.between * each, self.command_seconds)
        row, trial = judged(trial, run)
        self.accuracy.progress.tried(row)
        return Sooner(trial, held.verdict, row)

    def _confirmed(self, plan: Plan) -> Trial | None:
        """None if there is no plan, or no time for it."""
        efforts = self.accuracy.budget.confirmations(plan) if plan else ()
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
    if not may_be_claimed(trial) and trial.failure is None and not is_slower(trial.ratio):
        trial = run.over_runs(trial)
    kept = may_be_claimed(trial)
    found: FoundGain = "failed" if trial.failure else "gain" if kept else "no gain"
    parts = (START, "steps") if trial.parts else ()
    row = Tried(
        technique=START,
        settings={},
        ratio=trial.ratio,
        against=BASELINE,
        kept=kept,
        reason=Reason(found, failure=trial.failure or "", names=tuple(trial.b.techniques), parts=parts),
        method=trial.method,
        setup_seconds=trial.setup_seconds,
        together=trial.b,
        parts=trial.parts,
        spent=trial.spent,
    )
    return row, trial
