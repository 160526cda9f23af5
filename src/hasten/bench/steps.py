"""From single steps to the time of a block: whole cycles of the script, per sample where the samples are
known.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, median

from ..inside.observer import cycle_length
from ..records.observation import Step

TOO_FEW_REGULAR = "too few regular steps to time: evaluations or new epochs fall into every block"


@dataclass(frozen=True)
class Rhythm:
    """What a usual step of the script looks like, learnt while it was observed."""

    evaluations: int
    restarts: int
    cycle: int  # optimizer steps in one repeating block of the script
    cycle_seconds: float  # of the baseline, median

    def regular(self, step: Step) -> bool:
        """No evaluation and no new epoch more than usual fell into the step."""
        return step.evaluations <= self.evaluations and step.restarts <= self.restarts


@dataclass(frozen=True)
class Block:
    """Consecutive steps under one plan. Times are of the median regular cycle."""

    sample_seconds: float  # a step's where samples are unknown
    step_seconds: float


def rhythm_of(steps: Sequence[Step]) -> Rhythm:
    """The most frequent counts of evaluations and restarts, and the script's cycle."""
    evaluations = Counter(step.evaluations for step in steps).most_common(1)[0][0]
    restarts = Counter(step.restarts for step in steps).most_common(1)[0][0]
    cycle = cycle_length([step.signature for step in steps])
    return Rhythm(evaluations, restarts, cycle, cycle * median(step.seconds for step in steps))


def regular_steps(steps: Sequence[Step], rhythm: Rhythm) -> list[Step]:
    return [step for step in steps if rhythm.regular(step)]


def measure(steps: Sequence[Step], rhythm: Rhythm, discard: int = 1) -> Block | None:
    """The block's times; None where fewer than two regular cycles are left to time.

    The first ``discard`` cycles do not count: the step after a switch or a pause is a step of its own kind.
    """
    cycles = [steps[i : i + rhythm.cycle] for i in range(discard * rhythm.cycle, len(steps), rhythm.cycle)]
    whole = [c for c in cycles if len(c) == rhythm.cycle and all(rhythm.regular(step) for step in c)]
    if len(whole) < 2:
        return None
    sample_seconds = median(
        sum(s.seconds for s in c) / (sum(s.samples or 0 for s in c) or len(c)) for c in whole
    )
    return Block(sample_seconds, median(fmean(s.seconds for s in c) for c in whole))


def all_finite(steps: Sequence[Step]) -> bool:
    """Whether every loss seen is a number: a plan that trains to NaN has won nothing."""
    return all(math.isfinite(loss) for step in steps for loss in step.losses)
