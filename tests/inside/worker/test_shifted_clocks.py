"""Clocks that run ahead for the script, and for no other code."""

from __future__ import annotations

import datetime
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from hasten.inside.guarding.step_numbers import END, Event, parted
from hasten.inside.seams import Seams
from hasten.inside.worker.shifted_clocks import Clocks

pytestmark = pytest.mark.attack("truth")

MONTHS = 200 * 24 * 3600
READ: dict[str, Callable[[], float]] = {
    "time": lambda: time.time(),
    "monotonic": lambda: time.monotonic(),
    "perf_counter": lambda: time.perf_counter(),
    "process_time": lambda: time.process_time(),
    "nanoseconds": lambda: time.monotonic_ns() / 1e9,
    "now": lambda: datetime.datetime.now().timestamp(),
    "now in a zone": lambda: datetime.datetime.now(datetime.timezone.utc).timestamp(),
    "today": lambda: datetime.datetime.today().timestamp(),
}


@pytest.fixture
def clocks() -> Iterator[Clocks]:
    seams = Seams()
    made = Clocks()
    made.install(seams)
    yield made
    seams.undo_all()


@pytest.mark.parametrize("name", READ)
def test_they_are_right_until_a_step_has_ended(clocks: Clocks, name: str) -> None:
    before = READ[name]()
    assert 0 <= READ[name]() - before < MONTHS
    clocks.step_ended()
    later = READ[name]()
    assert later - before > MONTHS
    clocks.step_ended()
    assert READ[name]() - later > 3600


def test_afterwards_everything_is_as_it_was() -> None:
    before = time.time, time.perf_counter_ns, datetime.datetime
    seams = Seams()
    Clocks().install(seams)
    assert time.time is not before[0]
    seams.undo_all()
    assert (time.time, time.perf_counter_ns, datetime.datetime) == before


def test_python_itself_goes_by_the_right_time(clocks: Clocks) -> None:
    clocks.step_ended()
    clocks.step_ended()
    event = threading.Event()
    threading.Timer(0.01, event.set).start()
    assert event.wait(60)


def test_a_clock_is_no_method(clocks: Clocks) -> None:
    class Timer:
        clock = time.perf_counter

        def read(self) -> float:
            return self.clock()  # type: ignore[misc]

    before = Timer().read()
    clocks.step_ended()
    assert Timer().read() - before > MONTHS


DATES: dict[str, Callable[[Any], bool]] = {
    "a date that is made": lambda kind: kind(2026, 1, 2).day == 2,
    "a date that is read": lambda kind: kind.fromisoformat("2026-01-02").month == 1,
    "the class of what is made": lambda kind: isinstance(kind.now(), kind),
    "a subclass": lambda kind: issubclass(kind, datetime.date),
    "the least": lambda kind: kind.min < kind.now() < kind.max,
    "a difference": lambda kind: isinstance(kind.now() - kind(2020, 1, 1), datetime.timedelta),
    "a stamp": lambda kind: kind.fromtimestamp(0, datetime.timezone.utc).year == 1970,
}


@pytest.mark.parametrize("name", DATES)
def test_dates_can_be_used_as_usual(clocks: Clocks, name: str) -> None:
    assert DATES[name](datetime.datetime)


def _steps(*values: float) -> list[Event]:
    return [Event("gradient", step, [value]) for step, value in enumerate(values, 1)]


COURSES: dict[str, tuple[list[Event], list[Event], bool]] = {
    "the same": (_steps(1, 2, 3), _steps(1, 2, 3), False),
    "one that was stopped": (_steps(1, 2, 3), _steps(1, 2), False),
    "another number": (_steps(1, 2, 3), _steps(1, 2.5, 3), True),
    "rounding": (_steps(1, 2, 3), _steps(1, 2 + 1e-12, 3), False),
    "drifted apart before": (_steps(1, 2, 3), _steps(1, 2 + 1e-7, 4), False),
    "an end": (_steps(1, 2, 3), [*_steps(1, 2), Event(END, 2, [])], True),
    "both end": ([*_steps(1), Event(END, 1, [])], [*_steps(1), Event(END, 1, [])], False),
    "no numbers": (_steps(float("nan")), _steps(float("nan")), False),
    "no number": (_steps(1.0), _steps(float("nan")), True),
    "other parameters": ([Event("gradient", 1, [1, 2])], _steps(1), True),
}


@pytest.mark.parametrize("name", COURSES)
def test_where_two_trainings_come_apart(name: str) -> None:
    one, other, apart = COURSES[name]
    assert (parted(one, other) is not None) == apart
