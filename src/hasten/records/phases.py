"""What a usual step takes, from observed steps: whole cycles, without those that contain an evaluation or the
start of an epoch.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from statistics import fmean, median

from .observation import PHASES, Observation, Step


def usual_cycles(steps: Sequence[Step], cycle: int) -> list[Sequence[Step]]:
    """Whole cycles whose steps have no more evaluations and restarts than most; all of them if no cycle is
    like that.
    """
    cycles = [steps[i : i + cycle] for i in range(0, len(steps) - cycle + 1, cycle)]
    if not cycles:
        return []
    evaluations = Counter(step.evaluations for step in steps).most_common(1)[0][0]
    restarts = Counter(step.restarts for step in steps).most_common(1)[0][0]
    usual = [c for c in cycles if all(s.evaluations <= evaluations and s.restarts <= restarts for s in c)]
    return usual or cycles


def median_phases(observation: Observation) -> dict[str, float]:
    """Seconds that a usual step spends in each phase; {} if no step was seen."""
    return usual_phases(observation.steps, observation.cycle)


def usual_phases(steps: Sequence[Step], cycle: int) -> dict[str, float]:
    """As ``median_phases``, of steps that repeat after so many."""
    cycles = usual_cycles(steps, cycle)
    return {
        name: median(sum(step.phases.get(name, 0.0) for step in one) for one in cycles) / cycle
        for name in (PHASES if cycles else ())
    }


def phase_share(observation: Observation, *names: str) -> float:
    """The part of a usual step's time that the named phases take, 0 to 1."""
    phases = median_phases(observation)
    total = sum(phases.values())
    return sum(phases[name] for name in names) / total if total else 0.0


def step_seconds(observation: Observation) -> float:
    """The duration of a usual step; 0 if none was seen."""
    cycles = usual_cycles(observation.steps, observation.cycle)
    return median(sum(s.seconds for s in cycle) for cycle in cycles) / observation.cycle if cycles else 0.0


def timed_step_seconds(observation: Observation, workers: int = 0) -> float:
    """As comparisons time it: the mean where worker processes make the batches, which come in bursts.
    ``workers``: of the plans that are compared.
    """
    cycles = usual_cycles(observation.steps, observation.cycle)
    if not cycles or not (workers or any(loader.workers for loader in observation.training_loaders)):
        return step_seconds(observation)
    return fmean(sum(s.seconds for s in cycle) for cycle in cycles) / observation.cycle


def usual_wait(steps: Sequence[Step]) -> float | None:
    """Seconds that a step waits for data, median; None of no steps."""
    return median(step.phases.get("data", 0.0) for step in steps) if steps else None


def samples_per_step(observation: Observation) -> float | None:
    """Samples of a usual cycle over its steps: a batch used by two optimizers counts once. None if no batch
    was seen.
    """
    return usual_samples(observation.steps, observation.cycle)


def usual_samples(steps: Sequence[Step], cycle: int) -> float | None:
    """Like ``samples_per_step``, of steps that repeat after ``cycle`` of them."""
    cycles = usual_cycles(steps, cycle)
    sizes = Counter(size for one in cycles if (size := sum(step.samples or 0 for step in one)))
    return sizes.most_common(1)[0][0] / cycle if sizes else None
