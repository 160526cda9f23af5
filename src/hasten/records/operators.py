"""How many operators a step computes, and whether they are so small that calling them takes most of it."""

from __future__ import annotations

from statistics import fmean

from .facts import Facts
from .observation import Observation
from .phases import median_phases

_SMALL = 30e-6  # seconds of an operator's forward and backward pass; on a CPU calling both takes about 10 us
_SMALL_ON_GPU = 80e-6  # with launches: seen on an H200, 39 us where graphs made steps 2.7 times faster,
# and 180 to 340 us where a GPU was busy


def operators_of(observation: Observation) -> float:
    """Operators of a step, in all of its backward passes."""
    backwards = fmean(step.signature[2] for step in observation.steps) if observation.steps else 0.0
    return (observation.operators or 0) * backwards


def seconds_each(observation: Observation) -> float:
    """Seconds an operator takes, forward and backward together; 0 if they were not counted."""
    phases, operators = median_phases(observation), operators_of(observation)
    passes = sum(phases.get(name, 0.0) for name in ("forward", "loss", "backward"))
    return passes / operators if operators else 0.0


def small_operators(facts: Facts) -> bool:
    """Whether most of the step's computation is call overhead."""
    return 0.0 < seconds_each(facts.observation) < (_SMALL_ON_GPU if facts.on_gpu else _SMALL)
