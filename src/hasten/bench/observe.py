"""Watch a script train for a while, as it is."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from statistics import median

from ..records.observation import Observation
from ..records.plan import BASELINE
from .ending import LEAST_STEPS, ScriptOver, too_short
from .stage import Stage
from .steps import Rhythm, rhythm_of

WARMUP_STEPS = 10
STEPS = 30
_FIRST_STEPS = 2  # after the very first, to see how slow they are
_SLOW_STEPS = 3


def observe(
    stage: Stage, steps: int = STEPS, warmup_steps: int = WARMUP_STEPS, seconds: float = 120.0
) -> tuple[Observation, Rhythm]:
    """Start the script, let it warm up, watch ``steps`` steps, stop it. A script that ends before is watched
    to its end, and one whose steps are so slow that this takes longer than ``seconds`` for fewer steps.

    Raises ScriptError where the script fails by itself, Refusal where it never trains or ends too soon.
    """
    script = stage.argv[0]
    with stage.worker(BASELINE, closely=True) as worker:
        in_all = None
        try:
            worker.wait_started()
            stage.keep_preparations(worker)
            first = worker.steps(min(_FIRST_STEPS, warmup_steps))
            fitting = seconds / max(1e-6, median(step.seconds for step in first))
            if fitting < warmup_steps + steps:
                warmup_steps = max(len(first), min(warmup_steps, int(fitting / 4)))
                steps = max(_SLOW_STEPS, int(fitting) - warmup_steps)
            if warmup_steps > len(first):
                worker.steps(warmup_steps - len(first))
            watched = worker.steps(steps)
            seen = worker.observation()
        except ScriptOver as over:
            in_all = over.ended.steps_in_all
            if over.ended.how != "completed" or over.ended.observation is None or in_all < LEAST_STEPS:
                raise too_short(over.ended, worker.child, script, stage.trial_folder) from None
            warmup_steps = min(warmup_steps, in_all // 4)
            watched = [*worker.history, *over.ended.steps][1 + warmup_steps :]
            seen = over.ended.observation
        finally:
            stage.protection = worker.protection
    rhythm = rhythm_of(watched, in_all)
    sizes = Counter(step.samples for step in watched if step.samples)
    observation = replace(
        seen,
        steps=tuple(watched),
        warmup_steps=1 + warmup_steps,
        cycle=rhythm.cycle,
        batch_size=sizes.most_common(1)[0][0] if sizes else None,
    )
    return observation, rhythm
