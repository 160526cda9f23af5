"""Watch a script train for a while, as it is."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from ..errors import Refusal
from ..records.observation import Observation
from ..records.plan import BASELINE
from .process import ScriptEnded, ScriptOver, script_error
from .stage import Stage
from .steps import Rhythm, rhythm_of

WARMUP_STEPS = 10
STEPS = 30


def observe(stage: Stage, steps: int = STEPS, warmup_steps: int = WARMUP_STEPS) -> tuple[Observation, Rhythm]:
    """Start the script, let it warm up, watch ``steps`` steps, stop it.

    Raises ScriptError where the script fails by itself, Refusal where it never trains or ends too soon.
    """
    script = stage.argv[0]
    with stage.worker(BASELINE) as worker:
        try:
            worker.wait_started()
            stage.keep_preparations(worker)
            worker.steps(warmup_steps)
            watched = worker.steps(steps)
        except ScriptOver as over:
            raise _too_short(over.ended, script, len(worker.history), 1 + warmup_steps + steps) from None
        finally:
            stage.protection = worker.protection
        rhythm = rhythm_of(watched)
        sizes = Counter(step.samples for step in watched if step.samples)
        observation = replace(
            worker.observation(),
            steps=tuple(watched),
            warmup_steps=1 + warmup_steps,
            cycle=rhythm.cycle,
            batch_size=sizes.most_common(1)[0][0] if sizes else None,
        )
    return observation, rhythm


def _too_short(ended: ScriptEnded, script: str, taken: int, needed: int) -> Exception:
    taken += len(ended.steps)
    if ended.how != "completed":
        return script_error(ended, script)
    if taken == 0:
        return Refusal(
            f"{script} ended without training: hasten saw no optimizer step and no backward pass in its "
            "process. Name the script that trains, with the arguments that make it train. (Training in "
            "processes that the script starts itself cannot be followed yet.)"
        )
    return Refusal(
        f"{script} ended after {taken} training steps, and {needed} are needed to see how it trains. "
        "Give it more epochs or more data (only the first steps are used)."
    )
