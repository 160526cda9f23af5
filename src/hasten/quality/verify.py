"""Baseline and plan trained to the end over several seeds: is the quality of the model held?"""

from __future__ import annotations

import json
import math
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean

from .. import safe_files
from ..bench.comparing.warnings import before_tuning
from ..bench.stage import Stage
from ..bench.trials import Trials
from ..bench.whole import train_whole
from ..bench.workers.ending import PlanRefused, ScriptOver, too_short
from ..bench.workers.outside_writes import outside_caution
from ..errors import Refusal
from ..launch.chosen import OwnRanks, check_processes, own_ranks_of
from ..lock import alone
from ..machine import this_machine
from ..machine.vitals import idle_vitals
from ..plans.own import prepare
from ..records.codec import to_json
from ..records.machine import Machine
from ..records.plan import BASELINE, Plan
from ..records.quality import (
    Metric,
    QualityVerdict,
    Tolerance,
    WholeRun,
)
from ..scripts.distribution import distribution_of
from ..scripts.sources import Sources
from ..scripts.workspace import Script, Workspace
from .judging import final, judge
from .metric import Wanted, metric_in

_HANGS_AFTER = 600.0, 10.0  # seconds, and times the slowest run so far: then a run is no longer waited for


@dataclass(frozen=True)
class VerifyRequest:
    """What was asked for. ``remarks`` are what there is to say of the plan on this machine."""

    script: Script
    plan: Plan
    environment: Mapping[str, str]
    wanted: Wanted
    lower_is_better: bool
    seeds: int
    tolerance: Tolerance
    allow_writes: bool
    remarks: tuple[str, ...] = ()
    wait: bool = False  # for the end of what is measured in the same folder
    nproc: int | None = None  # ranks of a script that is distributed itself; None: it trains in one process
    backend: str = ""  # used instead of those that such a script names; "" for none


def verify(request: VerifyRequest, say: Callable[[str], None]) -> QualityVerdict:
    """Train both arms over all seeds, strictly one after another, and judge. ``say`` is told what runs.

    Raises ScriptError if the script fails before its first step, and Refusal if it cannot be followed.
    UsageError if it reports no metric, or is distributed itself and the plan divides it. InUse while
    something else is measured here.
    """
    machine, distribution = this_machine(), distribution_of(request.script)
    # what cannot be is said before anything is waited for
    check_processes(request.plan, distribution)
    own_ranks = own_ranks_of(request.script, distribution, machine, request.nproc, request.backend)
    workspace = Workspace(request.script)
    prepare(workspace)
    with alone(workspace, request.wait, say):
        return _verify_alone(request, machine, own_ranks, workspace.new_trial(), say)


def _verify_alone(
    request: VerifyRequest,
    machine: Machine,
    own_ranks: OwnRanks | None,
    folder: Path,
    say: Callable[[str], None],
) -> QualityVerdict:
    sources = Sources(request.script, "verified")
    others = idle_vitals()
    stage = Stage(
        argv=_argv(request.script, 0),
        machine=machine,
        environment={**request.environment, "PYTHONUNBUFFERED": "1"},  # a line is heard when it is printed
        folders=request.script.folders,
        module=request.script.module is not None,
        protect=not request.allow_writes,
        own_ranks=own_ranks,
    )
    command = f"{shlex.join(request.script.argv)}\n"
    safe_files.write(folder / "command", command.encode(errors="surrogateescape"))
    with sources.unchanged(), Trials(stage, folder, sources) as trials:
        metric, runs = _train(request, trials, folder, say)
    remarks = (*request.remarks, *(remark for run in runs for remark in run.remarks))
    return replace(
        judge(metric, runs, request.tolerance),
        plan=request.plan,
        remarks=tuple(dict.fromkeys(remarks)),
        protection=trials.protection,
        warnings=(*before_tuning(*others), *outside_caution(trials.written_outside)),
        folder=str(folder),
        machine=machine.identity,
    )


def _train(
    request: VerifyRequest, trials: Trials, folder: Path, say: Callable[[str], None]
) -> tuple[Metric, list[WholeRun]]:
    """Train all runs, up to the first that fails."""
    wanted, label = request.wanted, request.script.label
    say(f"starting {label} once, for what it prepares before its first step")
    _prepare(trials)
    _rehearse(trials, request.plan, label)
    order = _order(request.plan, request.seeds)
    runs: list[WholeRun] = []
    metric = Metric(wanted.name or "quality")
    for number, (plan, seed) in enumerate(order, 1):
        left = fmean(run.seconds for run in runs) * (len(order) - len(runs)) if len(runs) > 1 else None
        about = f", about {left:.0f} s left" if left is not None else ""
        say(f"[{number} of {len(order)}{about}] {'plan' if plan else 'baseline'}, seed {seed}")
        limit = _HANGS_AFTER[0] + _HANGS_AFTER[1] * max(run.seconds for run in runs) if runs else None
        run = train_whole(
            trials,
            plan,
            seed,
            pattern=wanted.pattern,
            name=wanted.name,
            timeout=limit,
            argv=_argv(request.script, seed),
        )
        if not runs and not run.failure:
            metric = metric_in(run, wanted, request.lower_is_better, label)
        runs.append(_with_quality(run, metric))
        safe_files.write(folder / "trial.json", f"{json.dumps(to_json(runs), indent=1)}\n".encode())
        say(f"  {_in_words(runs[-1], metric)}")
        if runs[-1].failure:
            break
    return metric, runs


def _argv(script: Script, seed: int) -> tuple[str, ...]:
    """The command, for a script that takes its seed as an argument: "--seed {seed}"."""
    return tuple(word.replace("{seed}", str(seed)) for word in script.argv)


def _prepare(trials: Trials) -> None:
    """What the script writes before its first step (downloads, caches) is there for all runs, so that none
    of them takes longer for it.
    """
    with trials.worker(BASELINE) as worker:
        try:
            worker.wait_started()
        except ScriptOver as over:
            raise too_short(over.ended, worker.child, trials.stage.argv[0], trials.folder) from None
        trials.keep_preparations(worker)


def _rehearse(trials: Trials, plan: Plan, label: str) -> None:
    """Rehearse a plan of several processes, before anything is trained to the end."""
    try:
        trials.rehearse(plan)
    except PlanRefused as refused:
        raise Refusal(
            f"{label} does not train the same under the plan, so there is nothing to verify: {refused}. Take "
            f"{refused.technique} out of the plan, or tune again"
        ) from None


def _order(plan: Plan, seeds: int) -> list[tuple[Plan, int]]:
    """Baseline, plan, plan, baseline, ...: what changes slowly on the machine meets both alike."""
    return [
        (each, seed)
        for seed in range(seeds)
        for each in ((BASELINE, plan) if seed % 2 == 0 else (plan, BASELINE))
    ]


def _with_quality(run: WholeRun, metric: Metric) -> WholeRun:
    """The same run, marked as failed if it reports no quality, or one that is not a number."""
    if run.failure:
        return run
    if metric.name not in run.courses:
        return replace(run, failure=f"it did not report {metric.name}, although the first baseline run did")
    if not math.isfinite(final(run, metric)):
        return replace(run, failure=f"its {metric.name} is not a number at the end")
    return run


def _in_words(run: WholeRun, metric: Metric) -> str:
    if run.failure:
        return f"failed: {run.failure}"
    return f"{metric.name} {final(run, metric):.6g} at the end, {run.steps} steps, {run.seconds:.1f} s"
