"""Watch a script train for a while, as it is."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from statistics import median

from ..records.observation import Observation, Step
from ..records.plan import BASELINE, Plan
from ..records.whole_run import WatchedRun
from .comparing.steps import Rhythm, in_unit, rhythm_of, seconds_beyond_steps
from .comparing.unequal import differ
from .trials import Trials
from .workers.ending import LEAST_STEPS, BudgetOver, ScriptOver, too_short
from .workers.worker import Worker

WARMUP_STEPS = 10
STEPS = 30
_FIRST_STEPS = 2  # after the very first, however slow they are
_SLOW_STEPS = 3
_WARMUP_SHARE = 0.25  # of the time, if steps are slow
_UNEQUAL_STEPS = 20  # that show how a step's time grows with its batch, if batches are of unequal size
_UNEQUAL_TIMES = 2.5  # times the time, for these
_LATEST_STEPS = 3  # steps whose median says how slow they are now
_AT_ONCE_SECONDS = 1.0  # between two looks at how slow they are
_LONG_SECONDS = 15.0  # of watching steps, from which on it is told
_NO_END_SECONDS = 1e6  # for an evaluation, however long


@dataclass(frozen=True)
class WatchOn:
    """How long to watch after the steps: for the end of an epoch if it comes within ``seconds``. ``unknown``:
    also if it is not known when it comes; ``asked``: also if it is known to come later, or not known.
    ``whole``: to the end of the script.
    """

    seconds: float = 0.0
    asked: bool = False
    unknown: bool = False
    whole: bool = False


def observe(
    trials: Trials,
    steps: int = STEPS,
    warmup_steps: int = WARMUP_STEPS,
    seconds: float = 60.0,
    on: WatchOn | None = None,
    plan: Plan = BASELINE,
    told: Callable[[float, float], None] = lambda step, watching: None,
) -> tuple[Observation, Rhythm]:
    """Start the script under ``plan``, let it warm up, watch ``steps`` steps, stop it. A script that ends
    before is watched to its end, and one whose steps are so slow that this takes longer than ``seconds`` for
    fewer steps. What comes after these steps, as far as ``on`` asks, is in the observation's ``run`` alone.
    ``told`` gets the seconds of a step, and of all that is to be watched, where that is long. Where each
    evaluation of a closure turns out to be a step, the script is started again: then they are from the first
    one on, here and in all later workers.

    Raises ScriptError if the script fails by itself, Refusal if it never trains or ends too soon.
    """
    asked = trials, steps, warmup_steps, seconds, on, plan
    try:
        return _observed(*asked, told)
    except _EvaluationsAreSteps:
        trials.evaluations = True
        return _observed(*asked, lambda step, watching: None, again=True)


class _EvaluationsAreSteps(Exception):
    """It was not known when the worker started."""


def _observed(
    trials: Trials,
    steps: int,
    warmup_steps: int,
    seconds: float,
    on: WatchOn | None,
    plan: Plan,
    told: Callable[[float, float], None],
    again: bool = False,
) -> tuple[Observation, Rhythm]:
    """``again``: a worker was watched before, and what its script prepared is kept."""
    script, known = trials.stage.argv[0], trials.evaluations is not None
    with trials.worker(plan, closely=True) as worker:
        in_all = None
        try:
            worker.wait_started()
            if not again:
                trials.keep_preparations(worker)
            warm = worker.steps(min(_FIRST_STEPS, warmup_steps))
            left = seconds - _seconds(warm)
            usual = _usual(worker)
            if (takes := min(left, (warmup_steps + steps) * usual)) > _LONG_SECONDS:
                told(usual, takes)
            warm += _train(worker, warmup_steps - len(warm), 0, left * _WARMUP_SHARE)
            warmup_steps = len(warm)
            watched = _train(worker, steps, _SLOW_STEPS, seconds - _seconds(warm))
            if differ(watched):
                left = _UNEQUAL_TIMES * seconds - _seconds([*warm, *watched])
                watched += _train(worker, min(steps, _UNEQUAL_STEPS) - len(watched), 0, left)
            seen = worker.observation()
            if seen.steps_are_evaluations and not known:
                raise _EvaluationsAreSteps
            trials.evaluations = seen.steps_are_evaluations
            if on is not None:
                seen, in_all = _watch_on(worker, trials, seen, on)
        except ScriptOver as over:
            in_all = over.ended.steps_in_all
            if over.ended.how != "completed" or over.ended.observation is None:
                raise too_short(over.ended, worker.child, script, trials.folder) from None
            if over.ended.observation.steps_are_evaluations and not known:
                raise _EvaluationsAreSteps from None
            if in_all < LEAST_STEPS:
                raise too_short(over.ended, worker.child, script, trials.folder) from None
            warmup_steps = min(warmup_steps, in_all // 4)
            watched = [*worker.history, *over.ended.steps][1 + warmup_steps :]
            seen = replace(over.ended.observation, rest=over.ended.rest)
            trials.evaluations = seen.steps_are_evaluations
    bursts = max((loader.workers for loader in seen.training_loaders), default=0)
    rhythm = replace(rhythm_of(watched, in_all), bursts=bursts)
    if seen.run is not None:
        run = seen.run
        epoch = replace(rhythm, epoch_steps=run.epoch_steps, epoch_seen=run.epoch_seen)
        rhythm = replace(epoch, planned_steps=run.planned_steps)
        if worker.protection == "overlay":
            seen = replace(seen, run=_told_elsewhere(seen.run, trials))
    counted = in_unit(watched, rhythm)
    sizes = Counter(step.samples for step in counted if step.samples)
    observation = replace(
        seen,
        steps=counted,
        warmup_steps=1 + warmup_steps,
        settling_seconds=seconds_beyond_steps(worker.history[1 : 1 + warmup_steps], rhythm) or 0.0,
        cycle=rhythm.cycle,
        growth=rhythm.growth.power,
        batch_size=sizes.most_common(1)[0][0] if sizes else None,
    )
    return observation, rhythm


def _told_elsewhere(run: WatchedRun, trials: Trials) -> WatchedRun:
    folders = filter(trials.files.lies_elsewhere, run.part("saving").folders)
    return replace(run, saved_elsewhere=next(folders, ""))


def _watch_on(
    worker: Worker, trials: Trials, seen: Observation, on: WatchOn
) -> tuple[Observation, int | None]:
    """The observation once an epoch has ended, or the script, or the time that ``on`` allows; and the steps
    of the script, if it has come to its end. One that fails meanwhile has been seen until then.
    """
    began = trials.limit.clock()
    try:
        with trials.limit.ending(math.inf if on.whole else on.seconds):
            while seen.run is not None and (on.whole or not seen.run.epochs):
                left = on.seconds - (trials.limit.clock() - began)
                if not on.whole and (left <= 0 or not (on.asked or _may_end(worker, seen, left, on))):
                    break
                count = int(_AT_ONCE_SECONDS / _usual(worker))
                if not on.whole:
                    count = min(count, _steps_left(worker, seen))
                worker.steps(max(1, count), timeout=_NO_END_SECONDS)
                seen = worker.observation()
    except ScriptOver as over:
        seen = over.ended.observation or seen
        if over.ended.how == "completed":
            return replace(seen, rest=over.ended.rest), over.ended.steps_in_all
        if seen.run is not None:
            seen = replace(seen, run=replace(seen.run, failure=str(over)))
    except BudgetOver:  # within a step: a long evaluation, for example
        pass
    return seen, None


def _may_end(worker: Worker, seen: Observation, seconds: float, on: WatchOn) -> bool:
    """Whether the steps that are left of the epoch take no longer than that, as far as they are known."""
    if seen.run is None or seen.run.epoch_steps is None:
        return on.unknown
    return _steps_left(worker, seen) * _usual(worker) <= seconds


def _steps_left(worker: Worker, seen: Observation) -> int:
    """Steps left in the epoch, plus the first of the next; if unknown, as many as so far."""
    taken = len(worker.history)
    said = seen.run.epoch_steps if seen.run is not None else None
    return max(1, said + 1 - taken) if said is not None else taken


def _usual(worker: Worker) -> float:
    """Seconds that a step takes now."""
    return max(1e-6, median(step.seconds for step in worker.history[-_LATEST_STEPS:]))


def _train(worker: Worker, wanted: int, least: int, seconds: float) -> list[Step]:
    """``wanted`` steps, or as many as fit into ``seconds``, but at least ``least``. The speed of steps may
    change: the first ones may compile, for example, or fill a cache.
    """
    taken: list[Step] = []
    while len(taken) < wanted:
        usual = _usual(worker)
        left = seconds - _seconds(taken)
        if len(taken) >= least and usual > left:
            break
        fitting = int(min(left, _AT_ONCE_SECONDS) / usual)
        taken += worker.steps(min(wanted - len(taken), max(1, fitting)))
    return taken


def _seconds(steps: Sequence[Step]) -> float:
    return sum(step.seconds for step in steps)
