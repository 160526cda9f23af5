"""The whole product in one screen: observe, search over a bench, guard, confirm, write."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache

from ..bench.comparing.quiet import Quiet
from ..bench.comparing.steps import Rhythm
from ..bench.comparing.warnings import before_tuning, while_tuning
from ..bench.observe import WatchOn, observe
from ..bench.script_bench import ScriptBench
from ..bench.trials import Trials
from ..bench.workers.ending import BudgetOver
from ..bench.workers.limit import Limit
from ..bench.workers.outside_writes import outside_caution
from ..causes import find_causes
from ..errors import Refusal, UsageError
from ..inside.techniques.threads import Threads
from ..lock import alone
from ..machine import this_machine
from ..machine.vitals import idle_vitals
from ..plans.own import prepare
from ..plans.saving import save_plan
from ..plans.unconfirmed import forget
from ..records.diagnosis import Distribution
from ..records.facts import Facts
from ..records.plan import Plan
from ..records.result import Tried, TuneResult
from ..records.trial import Trial
from ..scripts.distribution import distribution_of
from ..scripts.sources import Sources
from ..scripts.workspace import Workspace
from .accuracy import Accuracy, Held, too_few_steps, too_late
from .bounds import Bounds
from .budget import Budget
from .candidate import Candidate
from .candidates import choose, shown_late
from .comparisons import Comparisons
from .conclusion import Found, conclude, too_early, unconfirmed, versions_of
from .confirming import beside, failed_with, fallback, left_out, next_best, settled, without_evaluations
from .deadline import Clock
from .dividing import Allowance
from .history import Earlier, identity_of
from .journal import Journal
from .keeping import Keeping, keeping_for
from .own_start import own_start
from .paying import ScriptLength
from .progress import Progress
from .recording import LoggedBench, new_journal, not_written_down, written_down
from .remembering import RememberingBench
from .request import TuneRequest
from .run_evidence import with_forecast
from .search import Search
from .search_time import SearchTime
from .starting_sooner import StartingSooner
from .surroundings import quiet_here, vitals_of
from .thread_curve import curve_of, in_time


def tune(request: TuneRequest, progress: Progress, clock: Clock = time.monotonic) -> TuneResult:
    """Find the plan under which the script trains fastest here, accuracy held, and write it down.

    Nothing is written or claimed if accuracy could not be checked.

    Raises Refusal if the script cannot be measured honestly, or while something else is measured here;
    ScriptError if it fails by itself.
    """
    machine, distribution = this_machine(), distribution_of(request.script)
    own = cache(own_start)  # measured once, if it matters
    own_ranks = request.own_ranks(distribution, machine)  # what is impossible is refused before any waiting
    workspace = Workspace(request.script)
    prepare(workspace)
    with alone(workspace, request.wait, progress.stage) as undisturbed:
        progress.begin()
        budget, sources = Budget(request.budget, clock), Sources(request.script, "tuned")
        others, begun = idle_vitals(), vitals_of(machine)
        stage = request.stage(machine, own_ranks)
        trials = Trials(stage, workspace.new_trial(), sources, Limit(clock))
        identity = identity_of(request, stage, sources)
        with Journal(workspace.journal_path, identity, undisturbed) as journal:
            with sources.unchanged():
                with trials:
                    found = _Tune(
                        request=request,
                        distribution=distribution,
                        trials=trials,
                        workspace=workspace,
                        journal=journal,
                        sources=sources,
                        progress=progress,
                        budget=budget,
                        allowance=Allowance(budget, request, progress),
                        own_start=(lambda: None) if own_ranks else own,
                    ).found()
                warnings = (
                    *new_journal(journal),
                    *found.warnings,
                    *before_tuning(*others),
                    *while_tuning(begun, vitals_of(machine), found.facts.observation, found.trial),
                    *outside_caution(trials.written_outside),
                )
                found = replace(found, warnings=warnings)
                result = replace(
                    conclude(found),
                    tune_seconds=budget.spent,
                    nproc=request.nproc,
                    backend=request.backend,
                    sources=sources.digests(),
                )
                result = with_forecast(found, result, own)
                result = written_down(journal, result, workspace.journal_path)
            if result.outcome != "not-checked":
                save_plan(workspace, result)
                with suppress(OSError, UsageError):  # the plan takes precedence over it everywhere
                    forget(workspace)
        return result


@dataclass(frozen=True)
class _Tune:
    """One tune: the request, where its trials run, and what gets their results."""

    request: TuneRequest
    distribution: Distribution
    trials: Trials
    workspace: Workspace
    journal: Journal
    sources: Sources
    progress: Progress
    budget: Budget
    allowance: Allowance
    own_start: Callable[[], float | None]  # what a run pays for hasten itself; None if that is not known

    def found(self) -> Found:
        request, (facts, rhythm) = self.request, self._observed()
        causes = find_causes(facts)
        ruled_out = request.ruled_out(self.distribution)
        candidates, refused = choose(facts, causes, request.risk, ruled_out, rhythm.within_steps)
        self.progress.observed(facts.observation, causes)

        quiet = quiet_here(self.budget.patience, self.progress, facts)
        with ScriptBench(self.trials, rhythm, facts.observation.seconds_to_steps, quiet) as bench:
            logged = LoggedBench(bench, self.trials, self.workspace, self.journal)
            earlier = self._earlier(facts, logged)
            self.allowance.divide(facts.observation, rhythm, bench, earlier.seconds)
            bench.wait_for(shown_late(candidates, facts))
            quiet.patience = self.budget.patience
            length = ScriptLength(rhythm.steps_in_all, lambda: bench.ends.planned_steps)
            keeping = keeping_for(request, self.workspace, facts, self.sources)
            remembering = self._remembering(logged, earlier)
            bounds = Bounds.seen(facts, rhythm.within_steps)
            search, longer = self._searched(candidates, remembering, length, keeping, bounds)
            bench.rest()
            keeping.found(search.found)
            short = self.budget.too_little(search.plan, ("any",)).seen
            accuracy = self._accuracy(facts)
            held = self._guarded(search, accuracy)
            keeping.checked(held)
            held, trial = self._confirmed(held, logged, quiet, accuracy)
            spent = self.budget.spent
            starting = StartingSooner(logged, accuracy, bench.ends, self.own_start)
            sooner = starting.found(candidates, held, trial)
            curve = curve_of(facts, search.tried, held.plan) if request.tries(Threads.name) else None
            threads = curve and in_time(curve, logged, self.budget, self.progress.trying)
        lost = logged.lost or keeping.lost
        return Found(
            facts=facts,
            spent=spent,
            protection=self.trials.protection,
            causes=causes,
            refused=(*refused, *search.comparisons.left_out),
            tried=(*search.tried, *held.stopped),
            untried=search.comparisons.untried,
            verdict=held.verdict,
            trial=trial,
            threads=threads,
            warnings=(*not_written_down(lost), *quiet.cautions(), *bench.ends.cautions()),
            longer=longer,
            short=short,
            ends=bench.ends,
            sooner=sooner,
        ).with_start()

    def _observed(self) -> tuple[Facts, Rhythm]:
        label = self.request.script.label
        self.progress.stage(f"observing {label}")
        try:
            with self.trials.limit.ending(self.budget.seconds):
                on = WatchOn(self.budget.to_watch_on, unknown=True)
                observation, rhythm = observe(self.trials, seconds=self.budget.to_observe, on=on)
        except BudgetOver as over:
            raise Refusal(
                f"{over}, before {label} had been watched for long enough: try a longer --budget"
            ) from None
        if obstacles := (*observation.obstacles, *too_few_steps(rhythm)):
            raise Refusal(f"{label} cannot be tuned: {'; '.join(obstacles)}")
        facts = Facts(self.trials.stage.seen, observation)
        self.trials.starts.know(facts)
        return facts, rhythm

    def _searched(
        self,
        candidates: Sequence[Candidate],
        bench: RememberingBench,
        length: ScriptLength,
        keeping: Keeping,
        bounds: Bounds,
    ) -> tuple[Search, Callable[[float], float]]:
        """The finished search, and the budget that would give it this many times the time."""
        time_left = SearchTime(self.budget, lambda: search.plan, self.allowance)
        bench.measuring.most_seconds = time_left.most

        def trying(technique: str, against: Plan) -> None:
            keeping.found(search.plan)
            self.progress.trying(technique, against)

        def tried(row: Tried) -> None:
            keeping.adopted(row, search.plan)
            self.progress.tried(row)

        search = Search(Comparisons(bench, time_left, trying, tried, length), bounds)
        search.run(candidates)
        return search, time_left.longer()

    def _earlier(self, facts: Facts, logged: LoggedBench) -> Earlier:
        """What tunes of the same training left, unless that is to be forgotten."""
        logged.identify(versions=versions_of(facts))
        return Earlier() if self.request.fresh else logged.earlier(self.request)

    def _remembering(self, logged: LoggedBench, earlier: Earlier) -> RememberingBench:
        """``logged``, with what earlier tunes measured."""
        found = RememberingBench(logged, earlier.trials)
        if len(found):
            self.progress.remembered(len(found), self.budget.seconds)
        return found

    def _accuracy(self, facts: Facts) -> Accuracy:
        how = (self.request.risk, self.request.seed, self.budget, self.progress, self.allowance)
        return Accuracy(self.trials, facts, *how)

    def _guarded(self, search: Search, accuracy: Accuracy) -> Held:
        if not search.found:
            return Held(search.found, too_late(search.tried, self.budget))
        self.allowance.leave_end(search.found)  # others may have slowed down what it was foreseen from
        self.progress.stage("checking that the training stays the same")
        return accuracy.held_part(search.found).but_starts()

    def _confirmed(
        self, held: Held, logged: LoggedBench, quiet: Quiet, accuracy: Accuracy
    ) -> tuple[Held, Trial | None]:
        """The trial, if there was time for one; otherwise the verdict says so. A plan that fails now makes
        room for the next best.
        """
        plan = held.plan
        logged.most_seconds = self.budget.confirmation_most
        if plan:
            self.allowance.leave_confirmation(plan)
        efforts = self.budget.confirmations(plan) if plan else ()
        if efforts:
            self.progress.stage("confirming in fresh processes")
            quiet.patience = self.budget.spare(efforts)
        trials: list[Trial] = []
        for one, effort in efforts:
            fitting = self.budget.refitted(one, effort) if trials else effort
            if fitting is not None:
                trials.append(logged.confirm(one, beside(trials, fitting)))
        if rest := fallback(plan, trials):
            fitting = self.budget.refitted(rest, efforts[-1][1])
            trials += [logged.confirm(rest, fitting)] if fitting is not None else []
        trial = settled(plan, trials)
        if next_best(plan, trials):
            return self._confirmed(self._held_without(held, trials, accuracy), logged, quiet, accuracy)
        if plan and held.verdict is not None and (trial is None or too_early(trial)):
            return replace(held, verdict=unconfirmed(held.verdict, self.budget.too_little(plan))), None
        return self._without_rest(held, trials, trial), trial

    def _held_without(self, held: Held, trials: Sequence[Trial], accuracy: Accuracy) -> Held:
        """What is left of a plan that failed, as far as it passes the guard by itself."""
        rest = next_best(held.plan, trials)
        rows = failed_with(held.plan, rest, trials)
        for row in rows:
            self.progress.tried(row)
        self.progress.stage("checking what is left of the plan that failed")
        again = accuracy.held_part(rest).but_starts()
        return replace(again, stopped=(*held.stopped, *rows, *again.stopped))

    def _without_rest(self, held: Held, trials: Sequence[Trial], trial: Trial | None) -> Held:
        """``held`` without what was not confirmed, if the rest was."""
        if trial is None or trial.b == held.plan:
            return held
        rows = left_out(held.plan, trials, trial.b)
        for row in rows:
            self.progress.tried(row)
        verdict = without_evaluations(held.verdict, trial.b)
        return replace(held, plan=trial.b, verdict=verdict, stopped=(*held.stopped, *rows))
