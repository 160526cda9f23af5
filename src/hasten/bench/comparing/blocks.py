"""From single steps to the time of a block: whole cycles of the script, per sample if the samples are
known.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean, median

from ...records.observation import Step
from .steps import Rhythm

_MOST_TIMES = 4  # the median cycle, apart from waiting for data: more in one cycle is a disturbance


@dataclass(frozen=True)
class Block:
    """Consecutive steps under one plan. Times are those of the usual regular cycle: see ``measure``."""

    sample_seconds: float  # per step if steps are compared; scaled to the usual batch size
    step_seconds: float
    mean_seconds: float  # per step, over all regular cycles: a whole run includes the slow ones
    samples: float = 1.0  # weight, if blocks of one process differ in length
    uneven: float = 1.0  # mean of regular cycles over the usual one
    contended: bool = False  # other programs took processor time from it, and it could not be timed again


def measure(
    steps: Sequence[Step], rhythm: Rhythm, discard: int = 1, ends: bool = True, least: int = 2
) -> Block | None:
    """The block's times; None if fewer than ``least`` regular cycles are left to time (one if they are slow),
    or none with known samples: to compare per step instead would compare a different number.

    The usual cycle is the median, which one disturbed step does not change. Where worker processes make the
    batches it is the mean: a step that finds its batch ready may take a fraction of one that has to wait, and
    a median is one or the other. What a cycle takes apart from waiting for data counts as four times the
    median's at most.

    The first ``discard`` cycles do not count: the step after a switch or a pause is special. Nor do, without
    the ``ends`` of passes, those that have all processors to themselves because a pass is nearly over, and
    the one after its beginning, when worker processes make many batches at once.
    """
    cycles = [steps[i : i + rhythm.cycle] for i in range(0, len(steps), rhythm.cycle)]
    whole = [c for c in cycles[discard:] if len(c) == rhythm.cycle and all(map(rhythm.timed, c))]
    if not ends:
        then = [c for before, c in pairwise(cycles) if rhythm.bursts and not all(map(rhythm.regular, before))]
        whole = [c for c in whole if c not in then and not any(step.last_batches for step in c)]
    if len(whole) < rhythm.fewer(least, 1):
        return None
    seconds = _undisturbed(whole) if rhythm.by_mean else list(map(_seconds, whole))
    counted = [
        (took, c, count)
        for took, c in zip(seconds, whole, strict=True)
        if (count := sum(map(rhythm.count, c)))
    ]
    per_unit = [
        took / count / times
        for took, c, count in counted
        if (times := rhythm.growth.times(c, rhythm.count)) is not None
    ]
    if not per_unit:
        return None
    step, mean = rhythm.usual(seconds) / rhythm.cycle, fmean(map(_seconds, whole)) / rhythm.cycle
    return Block(rhythm.usual(per_unit), step, mean, uneven=mean / max(1e-9, step))


def _seconds(cycle: Sequence[Step]) -> float:
    return sum(step.seconds for step in cycle)


def _undisturbed(cycles: Sequence[Sequence[Step]]) -> list[float]:
    """Seconds of each, in which nothing but waiting for data counts more than four times as usual."""
    waits = [sum(step.phases.get("data", 0.0) for step in cycle) for cycle in cycles]
    others = [_seconds(cycle) - wait for cycle, wait in zip(cycles, waits, strict=True)]
    most = _MOST_TIMES * median(others)
    return [wait + min(other, most) for wait, other in zip(waits, others, strict=True)]
