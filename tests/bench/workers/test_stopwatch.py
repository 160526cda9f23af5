"""All of a trial's time is told, each second once."""

from __future__ import annotations

import pytest

from hasten.bench.workers.stopwatch import Stopwatch
from hasten.records.spent import Spent


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_the_parts_of_a_trial_add_up_to_it() -> None:
    clock = Clock()
    stopwatch = Stopwatch(clock)
    with stopwatch.on("starting"):
        clock.now += 4
    for _ in range(2):
        with stopwatch.on("timing"):
            clock.now += 3
    assert stopwatch.lap(12.0, waiting=1.5) == Spent(starting=4, timing=4.5, waiting=1.5, rest=2)


def test_the_next_trial_begins_at_nothing() -> None:
    clock = Clock()
    stopwatch = Stopwatch(clock)
    with stopwatch.on("rehearsing"):
        clock.now += 4
    stopwatch.lap(4.0, waiting=0.0)
    assert stopwatch.lap(1.0, waiting=0.0) == Spent(rest=1)


def test_what_fails_has_taken_its_time() -> None:
    clock = Clock()
    stopwatch = Stopwatch(clock)

    def fails() -> None:
        with stopwatch.on("starting"):
            clock.now += 2
            raise KeyError

    with pytest.raises(KeyError):
        fails()
    assert stopwatch.lap(2.0, waiting=0.0).starting == 2
