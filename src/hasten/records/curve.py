"""Step time with one thread, two, four, ..."""

from __future__ import annotations

from dataclasses import dataclass

from .plan import Plan
from .reasons import Reason
from .trial import Ratio


@dataclass(frozen=True)
class ThreadPoint:
    """``ratio``: a step's time against that with the usual number of threads, which itself is exactly 1."""

    threads: int
    ratio: Ratio | None = None  # None: not measured
    hyperthreads: bool = False  # more threads than cores
    failed: Reason | None = None  # why it was not measured although there was time


@dataclass(frozen=True)
class ThreadCurve:
    """``points`` from one thread upwards, all measured in combination with one plan. ``usual``: the number of
    threads torch chose itself; a step takes ``usual_seconds`` with it (None: nothing was measured).
    """

    usual: int
    together_with: Plan
    points: tuple[ThreadPoint, ...]
    usual_seconds: float | None = None

    @property
    def measured(self) -> list[tuple[ThreadPoint, Ratio]]:
        """The points that were measured, from one thread upwards, each with its ratio."""
        return [(point, point.ratio) for point in self.points if point.ratio is not None]

    @property
    def missing(self) -> list[ThreadPoint]:
        """The points that were not measured: each says why."""
        return [point for point in self.points if point.ratio is None]

    @property
    def pays_up_to(self) -> int | None:
        """The fewest threads that no larger number clearly beats; None for a single point.

        Clearly: the two intervals do not overlap.
        """
        measured = self.measured
        if len(measured) < 2:
            return None
        for number, (point, ratio) in enumerate(measured):
            if all(more.high >= ratio.low for _, more in measured[number + 1 :]):
                return point.threads
        return None

    @property
    def fastest(self) -> int:
        """The number of threads with the shortest step, clearly or not."""
        return min(self.measured, key=lambda found: found[1].value)[0].threads
