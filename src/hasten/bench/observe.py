"""Watch a script train for a while, as it is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from statistics import median

from ..records.observation import Observation, Step
from ..records.plan import BASELINE
from .comparing.steps import Rhythm, in_unit, rhythm_of
from .trials import Trials
from .workers.ending import LEAST_STEPS, ScriptOver, too_short
from .workers.worker import Worker

WARMUP_STEPS = 10
STEPS = 30
_FIRST_STEPS = 2  # after the very first, however slow they are
_SLOW_STEPS = 3
_WARMUP_SHARE = 0.25  # of the time, where steps are slow
_LATEST_STEPS = 3  # whose median says how slow steps are now
_AT_ONCE_SECONDS = 1.0  # between two looks at how slow they are


def observe(
    trials: Trials, steps: int = STEPS, warmup_steps: int = WARMUP_STEPS, seconds: float = 120.0
) -> tuple[Observation, Rhythm]:
    """Start the script, let it warm up, watch ``steps`` steps, stop it. A script that ends before is watched
    to its end, and one whose steps are so slow that this takes longer than ``seconds`` for fewer steps.

    Raises ScriptError where the script fails by itself, Refusal where it never trains or ends too soon.
    """
    script = trials.stage.argv[0]
    with trials.worker(BASELINE, closely=True) as worker:
        in_all = None
        try:
            worker.wait_started()
            trials.keep_preparations(worker)
            warm = worker.steps(min(_FIRST_STEPS, warmup_steps))
            left = seconds - _seconds(warm)
            warm += _train(worker, warmup_steps - len(warm), 0, left * _WARMUP_SHARE)
            warmup_steps = len(warm)
            watched = _train(worker, steps, _SLOW_STEPS, seconds - _seconds(warm))
            seen = worker.observation()
        except ScriptOver as over:
            in_all = over.ended.steps_in_all
            if over.ended.how != "completed" or over.ended.observation is None or in_all < LEAST_STEPS:
                raise too_short(over.ended, worker.child, script, trials.folder) from None
            warmup_steps = min(warmup_steps, in_all // 4)
            watched = [*worker.history, *over.ended.steps][1 + warmup_steps :]
            seen = over.ended.observation
    rhythm = rhythm_of(watched, in_all)
    counted = in_unit(watched, rhythm)
    sizes = Counter(step.samples for step in counted if step.samples)
    observation = replace(
        seen,
        steps=counted,
        warmup_steps=1 + warmup_steps,
        cycle=rhythm.cycle,
        growth=rhythm.growth.power,
        batch_size=sizes.most_common(1)[0][0] if sizes else None,
    )
    return observation, rhythm


def _train(worker: Worker, wanted: int, least: int, seconds: float) -> list[Step]:
    """``wanted`` steps, or as many as fit into ``seconds``, but ``least`` of them. How slow steps are may
    change while they are taken: the first ones may compile, say, or fill a cache.
    """
    taken: list[Step] = []
    while len(taken) < wanted:
        usual = max(1e-6, median(step.seconds for step in worker.history[-_LATEST_STEPS:]))
        left = seconds - _seconds(taken)
        if len(taken) >= least and usual > left:
            break
        fitting = int(min(left, _AT_ONCE_SECONDS) / usual)
        taken += worker.steps(min(wanted - len(taken), max(1, fitting)))
    return taken


def _seconds(steps: Sequence[Step]) -> float:
    return sum(step.seconds for step in steps)
