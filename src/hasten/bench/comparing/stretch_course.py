"""Where a run is cut into stretches: found once, in a plain process."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

from ...records.observation import Step
from ...records.trial import Unseen
from .steps import Rhythm

Parts = tuple[str, ...]
"""Names from ``records.whole_run``."""

_EVALUATION = "evaluation"
_EPOCH = ("first batches", "epoch turns")
_SAVING = "saving"
LEAVES_NOTHING = (_EVALUATION, *_EPOCH)  # to be done after it has come by
_TOLD = (*LEAVES_NOTHING, _SAVING)
_TIMED_SECONDS = 2.0  # of each process: stretches that are shorter are joined
_WARMUP_STEPS = 10
_ALIKE = 0.1  # by which two distances may differ


@dataclass(frozen=True)
class Course:
    """``cuts``: the number of steps a process has taken when the first stretch begins, and when each one
    ends. ``lead_seconds``: from the first step's end to the first stretch; ``seconds``: of all stretches,
    plain.
    """

    cuts: tuple[int, ...]
    lead_seconds: float
    seconds: float

    @property
    def lengths(self) -> tuple[int, ...]:
        """Steps of each stretch."""
        return tuple(end - begin for begin, end in zip(self.cuts, self.cuts[1:], strict=False))

    @property
    def process_seconds(self) -> float:
        """Training time of one process."""
        return self.lead_seconds + self.seconds


def comes_by(step: Step, part: str, rhythm: Rhythm) -> bool:
    """Whether ``part`` fell into the step. Collections are not known by single steps: for them, any step into
    which something else fell; in a training without epochs any step, as nothing is put off to their turns.
    """
    if is_told(part):
        return _count(step, part) > _in_each_step(part, rhythm)
    return not rhythm.regular(step) or not rhythm.has_epochs


def _in_each_step(part: str, rhythm: Rhythm) -> int:
    """How many of it regular steps have; 0 if steps do not tell."""
    return _count(rhythm, part) if is_told(part) else 0


def _marks(steps: Sequence[Step], part: str, rhythm: Rhythm, last: bool) -> list[int]:
    """The numbers of the steps after the first, counted from 1, into which ``part`` fell.

    Where every step has its own, those with more of it; if there are none once ``last`` says that no more
    steps will come, all steps.
    """
    found = [number for number, step in enumerate(steps, 1) if number > 1 and comes_by(step, part, rhythm)]
    if found or not last or not _in_each_step(part, rhythm):
        return found
    return list(range(2, len(steps) + 1))


def _count(one: Step | Rhythm, part: str) -> int:
    if part == _EVALUATION:
        return one.evaluations
    return one.saves if part == _SAVING else one.restarts


def is_told(part: str) -> bool:
    """Whether steps tell when it fell into them."""
    return part in _TOLD


def times_in(steps: Sequence[Step], part: str, rhythm: Rhythm) -> int:
    """How often it occurred in them, beyond what every step has."""
    return sum(comes_by(step, part, rhythm) for step in steps)


def are_beyond_steps(parts: Parts, stretches: Sequence[Sequence[Step]], rhythm: Rhythm) -> bool:
    """Whether each of ``parts`` shows in the stretches besides what every step has of it."""
    return all(is_told(part) and any(times_in(one, part, rhythm) for one in stretches) for part in parts)


def done_less(parts: Parts, a: Sequence[Sequence[Step]], b: Sequence[Sequence[Step]]) -> str:
    """Which of ``parts`` stretches ``b`` have less often than ``a``, of the same steps; "" if none."""
    for part in filter(is_told, parts):
        times_a, times_b = (sum(_count(step, part) for one in side for step in one) for side in (a, b))
        if times_b < times_a:
            return f"{part} came by {times_b} times in steps in which plain training has it {times_a} times"
    return ""


def rarest(steps: Sequence[Step], parts: Parts, rhythm: Rhythm) -> str:
    """Which of ``parts`` occurred least often since the first step."""
    return min(parts, key=lambda part: len(_marks(steps, part, rhythm, last=True)))


def course_of(
    steps: Sequence[Step],
    parts: Parts,
    rhythm: Rhythm,
    late: int = 0,
    early: bool = False,
    last: bool = False,
) -> Course | None:
    """The course shown by a process that took ``steps``, its first one included; None if it has not taken
    enough of them. Of several parts, the rarest decides.

    ``late``: steps until what is compared is in force. ``early``: a long stretch may begin as soon as the
    process is warm, and last from one occurrence to the next, if the part leaves no work behind. ``last``:
    there will be no more steps, so shorter stretches must do.
    """
    part, least = rarest(steps, parts, rhythm), max(_warmup_steps(rhythm), late)
    marks = _marks(steps, part, rhythm, last)
    period = _period(marks)
    if len(marks) < 2 or period is None:
        return None
    until = [0.0, *accumulate(step.seconds for step in steps)]

    def course(cuts: Sequence[int]) -> Course:
        return Course(tuple(cuts), until[cuts[0]] - until[1], until[cuts[-1]] - until[cuts[0]])

    each = (until[marks[-1]] - until[marks[0]]) / (len(marks) - 1)
    if early and period == 1 and each >= _TIMED_SECONDS and set(LEAVES_NOTHING).issuperset(parts):
        length = marks[1] - marks[0]
        begin = max(least, marks[0] - length)
        within = [mark for mark in marks if begin < mark <= begin + length]
        if begin + length <= len(steps) and len(within) == 1:
            return course((begin, begin + length))
    marks = [mark for mark in marks if mark >= least]
    joined = period * max(1, math.ceil(_TIMED_SECONDS / 2 / max(1e-9, each * period) - 1e-6))
    count = 1 if each >= _TIMED_SECONDS else 2
    if last and period == 1 and len(marks) <= count * joined:
        count, joined = (2, (len(marks) - 1) // 2) if len(marks) > 2 else (1, 1)
    return course(marks[: count * joined + 1 : joined]) if len(marks) > count * joined else None


def _warmup_steps(rhythm: Rhythm) -> int:
    """Where any steps do, slow ones need no more than in other comparisons."""
    return _WARMUP_STEPS if rhythm.has_epochs else min(_WARMUP_STEPS, rhythm.warmup_cycles * rhythm.cycle)


def _seconds_to_see(each: float) -> float:
    """Training time until a course is known, if the part occurs every ``each`` seconds, > 0."""
    if each >= _TIMED_SECONDS:
        return 2 * each
    return (2 * math.ceil(_TIMED_SECONDS / 2 / each) + 1) * each


def unseen(steps: Sequence[Step], parts: Parts, rhythm: Rhythm, epoch_seconds: float) -> tuple[Unseen, float]:
    """Which of ``parts`` occurred too rarely in all ``steps`` of a process, and the seconds of training until
    a course would be known; 0 if not known. ``epoch_seconds``: of an epoch at least.
    """
    part = rarest(steps, parts, rhythm)
    marks = _marks(steps, part, rhythm, last=True)
    each = max(epoch_seconds, sum(step.seconds for step in steps[: marks[0]]) if marks else 0.0)
    again = 2 * sum(step.seconds for step in steps) if len(marks) > 1 else 0.0  # they occur unevenly
    return Unseen(part, 0.0, len(marks)), max(again, _seconds_to_see(each)) if each else 0.0


def _period(marks: Sequence[int]) -> int | None:
    """The number of occurrences after which the distances repeat; None if not seen yet.

    An evaluation within an epoch and one at its end give a short and a long distance: half of the two is not
    a piece of the run.
    """
    for begun in ([0, *marks], marks):  # the distance to the first one counts, or is longer
        gaps = [b - a for a, b in pairwise(begun)]
        for period in range(1, max(1, len(gaps) // 2) + 1):
            pairs = list(zip(gaps, gaps[period:], strict=False))
            if pairs and all(abs(a - b) <= _ALIKE * max(a, b) + 1 for a, b in pairs):
                return period
    return None
