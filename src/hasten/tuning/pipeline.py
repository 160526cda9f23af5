"""The whole product in one screen: observe, search over a bench, guard, confirm, write."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace

from ..bench.comparing.quiet import Quiet
from ..bench.comparing.steps import Rhythm
from ..bench.comparing.warnings import before_tuning, while_tuning
from ..bench.observe import observe
from ..bench.script_bench import SEARCH_PAIRS, ScriptBench
from ..bench.stage import Stage
from ..bench.workers.ending import BudgetOver
from ..bench.workers.limit import Limit
from ..bench.workers.outside import outside_words
from ..causes import find_causes
from ..errors import HastenError, Refusal
from ..inside.techniques.base import Risk
from ..launch.chosen import OwnRanks, own_ranks_of
from ..lock import alone
from ..machine import this_machine
from ..machine.container import quota_cpus
from ..machine.processor_time import allowed_cpus, processor_time
from ..machine.vitals import idle_vitals, vitals
from ..plans.own import prepare
from ..plans.saving import save_plan
from ..records.facts import Facts
from ..records.machine import Machine
from ..records.observation import Observation
from ..records.result import TuneResult
from ..records.trial import Trial
from ..scripts.distribution import distribution_of, why_not_shared
from ..scripts.sources import Sources
from ..scripts.workspace import Script, Workspace
from ..units import seconds_words
from .accuracy import Accuracy
from .budget import Clock, Costs, Deadline, budget_for_search
from .candidates import choose
from .conclusion import conclude, too_early, unconfirmed
from .journal import Journal
from .outlook import Outlook, SearchTime
from .progress import Progress
from .recording import LoggedBench
from .search import Search
from .thread_curve import complete, curve_of

_OBSERVATION_SHARE = 0.2  # of the budget, where steps are slow
_PATIENCE_SHARE = 0.1  # of the budget, for what is measured again because other programs disturbed it


@dataclass(frozen=True)
class TuneRequest:
    """What was asked for. ``budget`` in seconds includes guard and confirmation."""

    script: Script
    environment: Mapping[str, str]
    budget: float
    risk: Risk
    seed: int
    allow_writes: bool
    nproc: int | None = None  # ranks of a script that is distributed itself; None: it trains in one process
    backend: str = ""  # that stands in for those that such a script names; "" for none
    wait: bool = False  # for the end of what is measured in the same folder


def tune(request: TuneRequest, progress: Progress, clock: Clock = time.monotonic) -> TuneResult:
    """Find the plan under which the script trains fastest here, accuracy held, and write it down.

    Nothing is written, and nothing claimed, where accuracy could not be checked.

    Raises Refusal where the script cannot be measured honestly, or while something else is measured here;
    ScriptError where it fails by itself.
    """
    machine = this_machine()
    _own_ranks(request, machine)  # before anything is waited for
    workspace = Workspace(request.script)
    prepare(workspace)
    with alone(workspace, request.wait, progress.stage) as undisturbed:
        progress.begin()
        return _tune_alone(request, progress, workspace, machine, undisturbed, clock)


def _tune_alone(
    request: TuneRequest,
    progress: Progress,
    workspace: Workspace,
    machine: Machine,
    undisturbed: bool,
    clock: Clock,
) -> TuneResult:
    """``undisturbed``: we hold the folder's lock, so no other tune is under way here."""
    whole, sources = Deadline(request.budget, clock), Sources(request.script, "tuned")
    own_ranks = _own_ranks(request, machine)
    has_gpu = bool(machine.accelerators)
    others = idle_vitals()
    started = vitals(gpus=has_gpu)
    stage = Stage(
        argv=request.script.argv,
        machine=machine,
        environment=request.environment,
        folders=request.script.folders,
        module=request.script.module is not None,
        protect=not request.allow_writes,
        trial_folder=workspace.new_trial(),
        own_ranks=own_ranks,
        sources=sources,
        limit=Limit(clock),
    )
    identity = {
        "argv": request.script.argv,
        "digest": sources.digests().script,
        "machine": stage.seen.identity,
    }
    journal = Journal(workspace.journal_path, identity, undisturbed)
    state = "interrupted"
    try:
        with stage:
            result, confirmation = _tune(request, stage, workspace, journal, progress, whole)
        assert result.observation is not None
        warnings = (
            *result.warnings,
            *before_tuning(*others),
            *while_tuning(started, vitals(gpus=has_gpu), result.observation, confirmation),
            *outside_words(stage.written_outside),
        )
        result = replace(
            result,
            tune_seconds=whole.spent,
            warnings=warnings,
            nproc=request.nproc,
            backend=request.backend,
            sources=sources.digests(),
        )
        sources.check()
        if result.outcome != "not-checked":
            save_plan(workspace, result)
        state = "finished"
        return result
    except HastenError:
        state = "failed"
        sources.check()  # whatever failed, did so in the midst of a change
        raise
    finally:
        journal.close(state)


def _tune(
    request: TuneRequest,
    stage: Stage,
    workspace: Workspace,
    journal: Journal,
    progress: Progress,
    whole: Deadline,
) -> tuple[TuneResult, Trial | None]:
    """The result, and the confirmation it rests on."""
    progress.stage(f"observing {request.script.label}")
    observation, rhythm = _observed(request, stage)
    if observation.obstacles:
        raise Refusal(f"{request.script.label} cannot be tuned: {'; '.join(observation.obstacles)}")
    facts = Facts(stage.seen, observation)
    causes = find_causes(facts)
    by_itself = why_not_shared(distribution_of(request.script))
    ruled_out = {"processes": by_itself} if by_itself else {}
    candidates, refused = choose(facts, causes, request.risk, ruled_out)
    progress.observed(observation, causes)

    quiet = quiet_here(request.budget, progress)
    with ScriptBench(stage, rhythm, observation.start_seconds, quiet) as bench:
        costs = Costs.estimate(observation, bench.pairs.steps_needed, request.budget)
        outlook = Outlook(whole, costs, bench)
        used = whole.spent
        if used + costs.least > request.budget:
            raise Refusal(_too_slow(request, rhythm.cycle_seconds / rhythm.cycle, used + costs.least))
        left = SearchTime(outlook, lambda: search.found)
        logged = LoggedBench(bench, stage, workspace, journal, left.most)
        search = Search(logged, left, progress.trying, progress.tried)
        granted = left.left
        plan = search.run(candidates)
        searched, pair_steps = max(granted, whole.spent - used), bench.pairs.steps_needed

        trial, verdict = None, None
        if plan:
            progress.stage("checking that the training stays the same")
            accuracy = Accuracy(
                stage, facts, request.risk, request.seed, costs.guard_steps, search, progress, outlook
            )
            plan, verdict = accuracy.held_part(plan)
        logged.most_seconds = outlook.confirmation_most
        if plan and (effort := outlook.effort(plan)):
            progress.stage("confirming in fresh processes")
            quiet.patience = max(0.0, outlook.spare(plan, effort))
            trial = logged.confirm(plan, effort)
        if plan and verdict is not None and (trial is None or too_early(trial)):
            trial, verdict = None, unconfirmed(verdict, outlook.enough_budget(plan))
        spent = whole.spent
        curve = curve_of(facts, search.tried, plan)
        if curve is not None:
            comparison = SEARCH_PAIRS * outlook.pair(curve.together_with)
            curve = complete(curve, logged, outlook.rest(), comparison, progress.trying)

    def search_budget(times: float) -> float:
        return budget_for_search(observation, pair_steps, used, times * searched, request.budget)

    result = conclude(
        facts,
        stage.protection,
        trial,
        verdict,
        search.tried,
        search.untried,
        [*refused, *search.left_out],
        causes,
        spent,
        search_budget,
    )
    lost = (f"not every trial could be written down: {logged.lost}",) if logged.lost else ()
    return replace(result, threads=curve, warnings=(*lost, *quiet.words())), trial


def quiet_here(budget: float, progress: Progress) -> Quiet:
    """What sets aside the blocks that other programs disturb on this machine."""
    quiet = Quiet(processor_time, allowed_cpus(), quota_cpus())
    quiet.patience = _PATIENCE_SHARE * budget
    quiet.say = progress.remark
    return quiet


def _observed(request: TuneRequest, stage: Stage) -> tuple[Observation, Rhythm]:
    try:
        with stage.limit.ending(request.budget):
            return observe(stage, seconds=_OBSERVATION_SHARE * request.budget)
    except BudgetOver as over:
        raise Refusal(
            f"{over}, before {request.script.label} had been watched for long enough: try a longer --budget"
        ) from None


def _own_ranks(request: TuneRequest, machine: Machine) -> OwnRanks | None:
    tried = ", and how many processes are best for it is tried anyhow"
    return own_ranks_of(request.script, request.nproc, request.backend, machine, otherwise=tried)


def _too_slow(request: TuneRequest, step_seconds: float, needed: float) -> str:
    return (
        f"a step of {request.script.label} takes {seconds_words(step_seconds)}, so an honest answer takes at "
        f"least {needed:.0f} s, and the budget is {request.budget:.0f} s: try --budget {1.5 * needed:.0f}"
    )
