"""How a run's steps go: what repeats, how long a block of them is, and what may be lost by trying."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from ...records.run_tuning import RunTuning
from ..observing.cycles import cycle_length
from ..observing.raw_step import RawStep
from .contest import step_seconds

WATCHED_STEPS = 20
_LEAST_CYCLES_SEEN = 4
_BLOCK_SECONDS, _LEAST_CYCLES, _MOST_STEPS = 0.1, 3, 32
LOST_SHARE = 0.01  # of the run, at most, by trying
UNKNOWN_STEPS = 10_000  # that a run is assumed to take if its number of steps is not known


@dataclass(frozen=True)
class Course:
    """``cycle``: steps that repeat; ``usual``: evaluations and loaders' beginnings in most of them;
    ``each``: seconds of a step.
    """

    cycle: int
    usual: tuple[int, int]
    each: float

    @property
    def block_steps(self) -> int:
        """Steps of a block: whole cycles, about a tenth of a second."""
        wanted = round(_BLOCK_SECONDS / self.each / self.cycle)
        return self.cycle * max(_LEAST_CYCLES, min(_MOST_STEPS // self.cycle, wanted))

    def may_lose(self, tuning: RunTuning) -> float:
        """Seconds that trying may cost: 1% of the run, or of the time until the run tries again."""
        seconds = tuning.again_seconds
        again = seconds / self.each if seconds is not None else tuning.again_steps
        known = [steps for steps in (tuning.steps, again) if steps is not None]
        return LOST_SHARE * self.each * min(known, default=UNKNOWN_STEPS)


def course_of(seen: Sequence[RawStep]) -> Course | None:
    """The course of these steps; None if they are too few, or if no two are alike."""
    if len(seen) < WATCHED_STEPS:
        return None
    signatures = [(one.optimizer, one.forwards, one.backwards) for one in seen]
    cycle = cycle_length(signatures, [one.samples > 0 for one in seen])
    usual = Counter((one.evaluations, one.restarts) for one in seen).most_common(1)[0][0]
    each = step_seconds(seen, cycle, usual)
    if len(seen) < _LEAST_CYCLES_SEEN * cycle or each is None:
        return None
    return Course(cycle, usual, each)
