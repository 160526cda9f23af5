"""What a step takes with one thread, two, four, ...: the curve of time against threads."""

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
    failed: Reason | None = None  # why it was not measured, where there was time


@dataclass(frozen=True)
class ThreadCurve:
    """``points`` from one thread upwards, all measured in combination with one plan. ``usual``: the number of
    threads that torch chose itself, with which a step takes ``usual_seconds`` (None: nothing was measured).
    """

    usual: int
    together_with: Plan
    points: tuple[ThreadPoint, ...]
    usual_seconds: float | None = None

    @property
    def measured(self) -> list[tuple[ThreadPoint, Ratio]]:
        """From one thread upwards, each with its ratio."""
        return [(point, point.ratio) for point in self.points if point.ratio is not None]

    @property
    def missing(self) -> list[ThreadPoint]:
        """Those that were not measured: each says why."""
        return [point for point in self.points if point.ratio is None]

    @property
    def pays_up_to(self) -> int | None:
        """The fewest threads that no larger number beats beyond doubt; None for a single point.

        Beyond doubt: the two intervals do not meet.
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
        """The number of threads with which a step took least, beyond doubt or not."""
        return min(self.measured, key=lambda found: found[1].value)[0].threads
