"""Measures where the time of trials goes."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Literal

from ...records.spent import Spent

Part = Literal["rehearsing", "starting", "settling", "timing"]


class Stopwatch:
    """One for all benches of a tune, whose trials come one after another."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._seconds: dict[str, float] = defaultdict(float)

    @contextmanager
    def on(self, part: Part) -> Iterator[None]:
        """The block counts as this ``part`` of the trial, even if it raises. Not nested."""
        began = self._clock()
        try:
            yield
        finally:
            self._seconds[part] += self._clock() - began

    def lap(self, seconds: float, waiting: float) -> Spent:
        """For the trial that took ``seconds`` and ends now; ``waiting`` was part of its blocks. The next one
        starts at 0.
        """
        told, self._seconds = self._seconds, defaultdict(float)
        told["timing"] = max(0.0, told["timing"] - waiting)
        rest = max(0.0, seconds - waiting - sum(told.values()))
        return Spent(**told, waiting=waiting, rest=rest)
