"""Baseline and plan trained to the end over several seeds: is the quality of the model held?"""

from __future__ import annotations

import json
import math
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean, median, stdev

from .. import safe_files
from ..bench.comparing.statistics import interval, mean_interval, t_quantile
from ..bench.comparing.warnings import before_tuning
from ..bench.stage import Stage
from ..bench.trials import Trials
from ..bench.whole import train_whole
from ..bench.workers.ending import PlanRefused, ScriptOver, too_short
from ..bench.workers.outside import outside_words
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
    Interval,
    Metric,
    Point,
    QualityVerdict,
    Reached,
    Tolerance,
    WholeRun,
)
from ..records.trial import Ratio
from ..scripts.distribution import distribution_of
from ..scripts.sources import Sources
from ..scripts.workspace import Script, Workspace
from .metric import Wanted, metric_in

_HANGS_AFTER = 600.0, 10.0  # seconds, and times the slowest run so far: then a run is no longer waited for
_POWER = 0.8416  # standard deviations: in four of five cases, an interval then comes out as hoped
_MOST_SEEDS = 1000
OWN_SEED = (
    "the script sets its own seed: {count} equal runs count as one, which has no interval. Where it "
    "takes the seed as an argument, write {{seed}} there: --seed {{seed}}"
)
TOO_COARSE = (
    "every baseline run ended with exactly {value:g}, though not by the same training: the metric is too "
    "coarse to tell runs apart, or it is not what was meant"
)
SAME_TRAINING = "the same training: all values and the last losses equal the baseline's"


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
    backend: str = ""  # that stands in for those that such a script names; "" for none


def verify(request: VerifyRequest, say: Callable[[str], None]) -> QualityVerdict:
    """Train both arms over all seeds, strictly one after the other, and judge. ``say`` is told what runs.

    Raises ScriptError where the script fails before its first step, Refusal where it cannot be followed,
    UsageError where it tells no metric, or is distributed itself and the plan divides it, InUse while
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
        warnings=(*before_tuning(*others), *outside_words(trials.written_outside)),
        folder=str(folder),
        machine=machine.identity,
    )


def _train(
    request: VerifyRequest, trials: Trials, folder: Path, say: Callable[[str], None]
) -> tuple[Metric, list[WholeRun]]:
    """All runs, up to the first that fails."""
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
    """Where the plan is of several processes: before anything is trained to the end."""
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
    """The same run, failed where it tells no quality, or one that is no number."""
    if run.failure:
        return run
    if metric.name not in run.courses:
        return replace(run, failure=f"it told no {metric.name}, where the first baseline run did")
    if not math.isfinite(_final(run, metric)):
        return replace(run, failure=f"its {metric.name} is no number at the end")
    return run


def _in_words(run: WholeRun, metric: Metric) -> str:
    if run.failure:
        return f"failed: {run.failure}"
    return f"{metric.name} {_final(run, metric):.6g} at the end, {run.steps} steps, {run.seconds:.1f} s"


# ---- judging
def judge(metric: Metric, runs: Sequence[WholeRun], tolerance: Tolerance) -> QualityVerdict:
    """The verdict on the whole runs of both arms, paired by their seeds.

    "held": the 95% t interval of the plan's quality minus the baseline's does not reach beyond the
    tolerance on the bad side. "lost": all of it lies beyond. "cannot tell": neither.
    """
    verdict = QualityVerdict("failed", "", metric, tuple(runs), tolerance)
    for run in runs:
        if run.failure:
            return replace(verdict, reason=f"{run.arm}, seed {run.seed}: {run.failure}")
    arms = [sorted((r for r in runs if r.arm == arm), key=lambda r: r.seed) for arm in ("baseline", "plan")]
    pairs = list(zip(*arms, strict=True))
    finals = [_final(run, metric) for run in arms[0]]
    differences = [_final(plan, metric) - _final(baseline, metric) for baseline, plan in pairs]
    allowed = tolerance.of(fmean(finals))
    verdict = replace(
        verdict,
        allowed=allowed,
        baseline=fmean(finals),
        wall=_ratio([(baseline.seconds, plan.seconds) for baseline, plan in pairs]),
        reached=_reached(metric, pairs, median(finals)),
    )
    if len(set(finals)) == 1:
        outcome, reason = _without_spread(metric, pairs)
        return replace(verdict, outcome=outcome, reason=reason)
    difference = mean_interval(differences)
    assert difference is not None
    outcome = _outcome(difference, metric, allowed)
    enough = _seeds_enough(differences, metric, allowed) if outcome == "cannot tell" else None
    return replace(verdict, outcome=outcome, difference=difference, seeds_enough=enough)


def _final(run: WholeRun, metric: Metric) -> float:
    return run.courses[metric.name][-1].value


def _without_spread(metric: Metric, pairs: Sequence[tuple[WholeRun, WholeRun]]) -> tuple[str, str]:
    """The outcome and its reason where all baseline runs ended alike, so that no interval can be trusted."""
    baselines = [baseline for baseline, _ in pairs]
    if all(_same_training(baseline, plan, metric) for baseline, plan in pairs):
        return "held", SAME_TRAINING
    if all(_same_training(baselines[0], other, metric) for other in baselines[1:]):
        return "cannot tell", OWN_SEED.format(count=len(pairs))
    return "cannot tell", TOO_COARSE.format(value=_final(baselines[0], metric))


def _same_training(a: WholeRun, b: WholeRun, metric: Metric) -> bool:
    """Whether nothing that was seen tells the two apart: a loss goes back to everything before it."""
    values = [[point.value for point in run.courses[metric.name]] for run in (a, b)]
    return values[0] == values[1] and a.steps == b.steps and a.losses == b.losses != ()


def _outcome(difference: Interval, metric: Metric, allowed: float) -> str:
    gains = (difference.low, difference.high)
    worst, best = (-gains[1], -gains[0]) if metric.lower_is_better else gains
    if worst >= -allowed:
        return "held"
    return "lost" if best < -allowed else "cannot tell"


def _seeds_enough(differences: Sequence[float], metric: Metric, allowed: float) -> int | None:
    """Seeds that would settle it in four of five cases, if mean and spread stay; None for too many."""
    gain = -fmean(differences) if metric.lower_is_better else fmean(differences)
    for count in range(len(differences) + 1, _MOST_SEEDS + 1):
        half = (t_quantile(0.95, count - 1) + _POWER) * stdev(differences) / math.sqrt(count)
        if half <= abs(gain + allowed):
            return count
    return None


def _reached(metric: Metric, pairs: Sequence[tuple[WholeRun, WholeRun]], quality: float) -> Reached:
    came = [(_first(baseline, metric, quality), _first(plan, metric, quality)) for baseline, plan in pairs]
    both = [(a, b) for a, b in came if a is not None and b is not None]
    return Reached(
        quality=quality,
        baseline=tuple(a for a, _ in came),
        plan=tuple(b for _, b in came),
        seconds=_ratio([(a.seconds, b.seconds) for a, b in both]),
        steps=_ratio([(a.step, b.step) for a, b in both]),
    )


def _first(run: WholeRun, metric: Metric, quality: float) -> Point | None:
    """Where the run's course first is at least as good as ``quality``."""
    sign = -1 if metric.lower_is_better else 1
    return next((p for p in run.courses[metric.name] if sign * p.value >= sign * quality), None)


def _ratio(pairs: Sequence[tuple[float, float]]) -> Ratio | None:
    """The second over the first; None for fewer than two pairs, or where there is nothing to divide."""
    if not all(a > 0 and b > 0 for a, b in pairs):
        return None
    return interval([math.log(b / a) for a, b in pairs], "pairs")
