"""Where nothing makes training faster: what shortens the start alone, for runs that are short.

All that applies is confirmed at once, in pairs of fresh processes: each of it is exact, and no comparison has
chosen it. That is a second claim that a tune may make after the one about steps, so it may use a tenth of the
error of one. ``hasten run`` has a start of its own, so what is saved must be more than that takes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import median

from ..bench.comparing.decisions import Effort
from ..bench.comparing.statistics import mean_interval
from ..inside.techniques.catalog import CATALOG
from ..inside.techniques.exclusion import Exclusion
from ..records.plan import BASELINE, Plan
from ..records.reasons import Found as FoundGain
from ..records.reasons import Reason
from ..records.result import Tried
from ..records.run_forecast import ShorterStart, Span
from ..records.trial import Trial
from ..records.verdict import GuardVerdict
from .accuracy import Accuracy, Held
from .bounds import Bounds
from .candidate import Candidate
from .conclusion import Sooner, may_be_claimed
from .confirming import fallback
from .outside_steps import LARGE_START
from .recording import LoggedBench
from .starts import is_for_start

START = "start"  # name of the row for techniques that were compared together
_CLAIMS = 10  # as if so many claims were at stake, of which this is one


@dataclass(frozen=True)
class StartingSooner:
    """``command_seconds``: what hasten's own command takes before it starts the script's process."""

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
        if unchecked or (trial is not None and may_be_claimed(trial)):
            return None
        facts, plan = self.accuracy.facts, together(candidates)
        share = Bounds.seen(facts).share_of_start(steps) if steps is not None else 0.0
        if not plan or share < LARGE_START or not self.accuracy.budget.affords_guard(plan):
            return None
        self.accuracy.progress.stage("nothing makes steps faster: checking what shortens the start")
        held = self.accuracy.held_part(plan)
        trial = self._confirmed(held.plan)
        if trial is None or held.verdict is None:
            return None
        trial = self._confirmed(fallback(held.plan, [trial])) or trial
        return self._judged(trial, held.verdict, facts.observation.start_seconds / share)

    def _confirmed(self, plan: Plan) -> Trial | None:
        """None if there is no plan, or no time for it."""
        efforts = self.accuracy.budget.confirmations(plan) if plan else ()
        if not efforts:
            return None
        self.accuracy.progress.stage("comparing starts of fresh processes")
        return self.bench.confirm(plan, Effort(efforts[0][1].pairs, claims=_CLAIMS))

    def _judged(self, trial: Trial, verdict: GuardVerdict, run_seconds: float) -> Sooner:
        start = self._start(trial, run_seconds) if may_be_claimed(trial) else None
        claimed = start is not None and start.saved.low > 0
        row = _row(trial, claimed, start is not None)
        self.accuracy.progress.tried(row)
        return Sooner(trial, verdict, row, start if claimed else None)

    def _start(self, trial: Trial, run_seconds: float) -> ShorterStart:
        pairs = zip(trial.processes_a, trial.processes_b, strict=True)
        saved = mean_interval([a.script_start - b.script_start for a, b in pairs])
        assert saved is not None
        own = self.command_seconds + median(one.own_seconds for one in trial.processes_b)
        return ShorterStart(
            before=median(one.script_start for one in trial.processes_a),
            after=median(one.script_start for one in trial.processes_b),
            saved=Span(saved.value - own, saved.low - own, saved.high - own),
            own_seconds=own,
            run_seconds=run_seconds,
        )


def together(candidates: Sequence[Candidate]) -> Plan:
    """All that shortens the start alone; of two that exclude each other, the first."""
    plan = BASELINE
    for candidate in candidates:
        name = candidate.technique.name
        if is_for_start(name, CATALOG) and not isinstance(candidate.fitting(plan, CATALOG), Exclusion):
            plan = plan.adding(name, candidate.options[0])
    return plan


def _row(trial: Trial, kept: bool, gains: bool) -> Tried:
    names = list(trial.b.techniques)
    found: FoundGain = "failed" if trial.failure else "gain" if gains else "no gain"
    reason = Reason(found, failure=trial.failure or "", parts=trial.parts)
    if gains and not kept:
        reason = replace(reason, decision="less than hasten")
    alone = len(names) == 1
    return Tried(
        technique=names[0] if alone else START,
        settings=trial.b.techniques[names[0]] if alone else {},
        ratio=trial.ratio,
        against=BASELINE,
        kept=kept,
        reason=reason if alone else replace(reason, names=tuple(names)),
        method=trial.method,
        parts=trial.parts,
        together=BASELINE if alone else trial.b,
        spent=trial.spent,
    )
