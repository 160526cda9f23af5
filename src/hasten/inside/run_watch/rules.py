"""From blocks of steps to a finding: they have become slower, by more than chance. Pure functions.

A slowdown must last, and then last as long again, before it is reported. Everything is in logarithms of a
block's time over that of the run's own first blocks, so that noise is the same for fast and slow steps.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import Literal

from ...records.run_pace import WatchedRun
from .reference import Reference, comparable, noise_of, reference_of, without_trend
from .step_blocks import Block

REFERENCE_BLOCKS = 30
_WINDOW_BLOCKS = 8
_LEAST_SLOWER, _LEAST_SLOWER_THAN_TUNED = math.log(1.10), math.log(1.15)
_NOISES, _NOISES_FROM_TUNED = 5.0, 3.0  # steps are slower by this many standard deviations of a block
_MOST_OF_WINDOW = 0.75  # of its blocks must be beyond half the limit
_SHARE_OF_RUN, _MOST_LASTING = 0.02, 3  # how much longer it must last in a long run, and at most
_FIRST_REST = 4  # times as long as it must last: pause after a false suspicion; later longer
_STRANGE_BLOCKS, _MOST_REFERENCES = 8, 8
_COURSE = 256  # values kept for the whole run
_PARTS = 4  # of the course, each slower than the one before if steps keep slowing down

Event = Literal["", "learns", "learnt", "suspects", "calm", "slower"]


@dataclass(frozen=True)
class Slower:
    """Steps take ``seconds``, and took ``before``: in the tune, or at this run's beginning. ``longer``: extra
    seconds compared to the beginning or, if they were as slow then (``from_start``), to the tune.
    ``growing``: they keep slowing down.
    """

    than_tuned: bool
    seconds: float
    before: float
    longer: float
    growing: bool = False
    from_start: bool = False

    @property
    def times(self) -> float:
        return self.seconds / self.before


class Pace:
    """Gets every block in order and returns what it means. "learns": the reference begins; "learnt": it is
    complete; "suspects": steps are slower; "calm": they were not for long; "slower": they are.
    """

    def __init__(self, watched: WatchedRun) -> None:
        self._watched, self._tuned = watched, watched.tuned
        self.reference: Reference | None = None
        self._references = 0
        self._begin()

    def _begin(self) -> None:
        self._stage: Literal["warms up", "learns", "watches", "suspects", "over"] = "warms up"
        self._warmed_steps, self._warmed_seconds = 0, 0.0
        self._blocks: list[Block] = []
        self._limit, self._tuned_limit = math.inf, math.inf
        self._window: deque[tuple[float, float]] = deque(maxlen=_MOST_LASTING * 64)  # log ratio, wall
        self._course: list[float] = []
        self._each = 1  # blocks per value of the course
        self._part: list[float] = []
        self._strange = 0
        self._elapsed, self._quiet_until, self._rest = 0.0, 0.0, _FIRST_REST * self._watched.lasting_seconds

    def another_training(self) -> None:
        """New models or optimizers have appeared: what was known about steps applies to the old ones. The
        plan was tuned on the first training, from its first steps on.
        """
        if self._stage != "warms up" or self._warmed_steps >= self._watched.warmup_steps:
            self._tuned = None
        self._references = 0
        self._begin()

    def block(self, block: Block) -> Event:
        """What this block means."""
        if block.set_up or self._stage == "over":
            return ""
        self._elapsed += block.wall
        if self._stage == "warms up":
            return self._warmed(block)
        if self._stage == "learns":
            return self._learnt(block)
        assert self.reference is not None
        ratio = self.reference.log_ratio(block)
        if ratio is None:
            return self._was_strange()
        self._strange = 0
        self._note(ratio)
        self._window.append((ratio, block.wall))
        return self._judged()

    def finding(self) -> Slower:
        """What was found, once ``block`` has returned "slower"."""
        assert self.reference is not None
        ratio = median(ratio for ratio, _ in self._latest())
        level, tuned = self.reference.level, self._tuned
        seconds = level * math.exp(ratio)
        if tuned is None or ratio <= self._tuned_limit:
            return Slower(False, seconds, level, seconds - level, self.growing)
        from_start = ratio <= self._limit
        longer = seconds - (tuned.step_seconds if from_start else level)
        return Slower(True, seconds, tuned.step_seconds, longer, self.growing, from_start)

    @property
    def growing(self) -> bool:
        """Whether steps kept slowing down, in each part of the run compared to the one before."""
        assert self.reference is not None
        size = len(self._course) // _PARTS
        if not size:
            return False
        parts = [median(self._course[at * size : (at + 1) * size]) for at in range(_PARTS)]
        return all(b - a > self.reference.noise for a, b in pairwise(parts))

    # ---- stages
    def _warmed(self, block: Block) -> Event:
        self._warmed_steps += block.steps
        self._warmed_seconds += block.wall
        watched = self._watched
        if self._warmed_steps < watched.warmup_steps or self._warmed_seconds < watched.warmup_seconds:
            return ""
        return self._learns()

    def _learns(self) -> Event:
        self._references += 1
        self._stage = "learns" if self._references <= _MOST_REFERENCES else "over"
        self._blocks.clear()
        return "learns" if self._stage == "learns" else ""

    def _learnt(self, block: Block) -> Event:
        self._blocks.append(block)
        if len(self._blocks) < REFERENCE_BLOCKS:
            return ""
        self.reference = reference_of(self._blocks)
        if self.reference is None:
            self._stage = "over"
            return ""
        self._stage = "watches"
        self._set_limits(self.reference.noise)
        for one in self._blocks:  # they may be slower than the plan's
            ratio = self.reference.log_ratio(one)
            if ratio is not None:
                self._window.append((ratio, one.wall))
        self._blocks.clear()
        return "learnt"

    def _set_limits(self, noise: float) -> None:
        """How much slower steps must be to count as slower than the reference, and than the plan's."""
        assert self.reference is not None
        self._limit, tuned = max(_LEAST_SLOWER, _NOISES * noise), self._tuned
        if tuned is not None and comparable(self.reference, tuned):
            most = max(math.log(tuned.most_seconds), math.log(tuned.step_seconds) + _LEAST_SLOWER_THAN_TUNED)
            self._tuned_limit = most + _NOISES_FROM_TUNED * noise - math.log(self.reference.level)

    def _take_noise_of(self, course: Sequence[float]) -> None:
        """The run's first blocks may have been calmer than later ones. Steady growth is not noise."""
        if len(course) > REFERENCE_BLOCKS and self.reference is not None:
            self._set_limits(max(self.reference.noise, noise_of(without_trend(course))))

    def _was_strange(self) -> Event:
        """If all steps are of a different kind for long, learn again: perhaps images have become larger."""
        self._strange += 1
        if self._strange < _STRANGE_BLOCKS:
            return ""
        self._tuned = None
        self._begin()
        return self._learns()

    def _judged(self) -> Event:
        latest = self._latest()
        if not latest:
            return ""
        ratios = [ratio for ratio, _ in latest]
        slower = is_slower(ratios, min(self._limit, self._tuned_limit))
        if slower and self._stage == "watches":
            self._take_noise_of(self._course[: -(len(latest) // self._each) or None])
            slower = is_slower(ratios, min(self._limit, self._tuned_limit))
        if self._stage == "suspects":
            self._stage = "over" if slower else "watches"
            if slower:
                return "slower"
            self._quiet_until, self._rest = self._elapsed + self._rest, 2 * self._rest
            return "calm"
        if not slower or self._elapsed < self._quiet_until:
            return ""
        self._stage = "suspects"
        self._window.clear()
        return "suspects"

    def _latest(self) -> list[tuple[float, float]]:
        """The blocks that are judged together; none if there are too few."""
        lasting = self._watched.lasting_seconds
        needed = max(lasting, min(_MOST_LASTING * lasting, _SHARE_OF_RUN * self._elapsed))
        found: list[tuple[float, float]] = []
        seconds = 0.0
        for one in reversed(self._window):
            found.append(one)
            seconds += one[1]
            if len(found) >= _WINDOW_BLOCKS and seconds >= needed:
                return found
        return []

    def _note(self, ratio: float) -> None:
        """Keep the course of the run, in ever larger parts."""
        self._part.append(ratio)
        if len(self._part) < self._each:
            return
        self._course.append(median(self._part))
        self._part.clear()
        if len(self._course) >= _COURSE:
            self._course = [(a + b) / 2 for a, b in zip(self._course[::2], self._course[1::2], strict=False)]
            self._each *= 2


def is_slower(log_ratios: Sequence[float], limit: float) -> bool:
    """Whether most of them are slower, and not just a few by a lot."""
    if limit == math.inf or median(log_ratios) <= limit:
        return False
    near = limit - abs(limit) / 2
    return sum(ratio > near for ratio in log_ratios) >= _MOST_OF_WINDOW * len(log_ratios)
