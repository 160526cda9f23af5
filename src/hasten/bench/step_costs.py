"""How long a step takes with the script's own batches, with half and with a quarter of their samples."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ..records.observation import Observation
from ..records.phases import samples_per_step, usual_cycles
from ..records.plan import Plan
from .observe import observe
from .stage import Stage
from .trials import Trials

DIVISORS = (1, 2, 4, 4, 2, 1)
"""What the batch size is divided by, one process each. There and back, so that a drift affects all alike."""
_STEPS, _WARMUP_STEPS = 30, 8

Runs = dict[int, list[list[float]]]
"""Seconds of a step, averaged over a cycle of the script; by samples a step, for each process."""


def step_costs(
    stage: Stage, plan: Plan, seconds: float, say: Callable[[str], None]
) -> tuple[Observation, Runs]:
    """What was seen of the training under ``plan``, and its steps. Each process is watched for ``seconds`` at
    most. A loader that does not draw at random keeps its batch size: then there is one number of samples.

    Raises as ``observe``.
    """
    first: Observation | None = None
    runs: Runs = {}
    evaluations: bool | None = None
    for number, divisor in enumerate(DIVISORS, 1):
        say(f"measuring steps, process {number} of {len(DIVISORS)}")
        with Trials(replace(stage, batch_divisor=divisor)) as trials:
            trials.evaluations = evaluations
            seen, _ = observe(trials, _STEPS, _WARMUP_STEPS, seconds, plan=plan)
            evaluations = trials.evaluations
        first = first or seen
        samples = samples_per_step(seen)
        if samples is None:
            return first, {}
        cycles = usual_cycles(seen.steps, seen.cycle)
        runs.setdefault(round(samples), []).append(
            [sum(step.seconds for step in cycle) / len(cycle) for cycle in cycles]
        )
    assert first is not None
    return first, runs
