"""Until when workers are waited for."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from hasten.bench.workers.ending import BudgetOver
from hasten.bench.workers.limit import Limit
from tests.bench.real_workers import trials_for


def limit_at(now: list[float]) -> Limit:
    return Limit(lambda: now[0])


def test_without_an_end_everything_is_waited_for_as_long_as_it_says() -> None:
    limit = limit_at([0.0])
    assert limit.left is None
    assert not limit.over
    assert (limit.within(600.0), limit.within(None)) == (600.0, None)


@pytest.mark.attack("truth")
@pytest.mark.parametrize(
    ("now", "timeout", "within"),
    [
        (0.0, 600.0, 10.0),
        (0.0, 3.0, 3.0),
        (0.0, None, 10.0),
        (9.0, 3.0, 1.0),
        (10.0, 3.0, 0.01),
        (99.0, None, 0.01),
    ],
)
def test_nothing_is_waited_for_beyond_the_end(now: float, timeout: float | None, within: float) -> None:
    """Nor for no time at all: a socket that may not wait fails in another way."""
    clock = [0.0]
    limit = limit_at(clock)
    with limit.ending(10.0):
        clock[0] = now
        assert limit.within(timeout) == within
        assert limit.over is (now >= 10.0)
    assert not limit.over


@pytest.mark.attack("truth")
@pytest.mark.parametrize(
    ("outer", "inner", "left"),
    [
        (10.0, 5.0, 5.0),
        (5.0, 10.0, 5.0),
        (math.inf, 5.0, 5.0),
        (5.0, math.inf, 5.0),
        (math.inf, math.inf, None),
    ],
)
def test_of_two_ends_the_earlier_counts_and_the_outer_one_comes_back(
    outer: float, inner: float, left: float | None
) -> None:
    limit = limit_at([0.0])
    with limit.ending(outer):
        with limit.ending(inner):
            assert limit.left == left
        assert limit.left == (None if outer == math.inf else outer)
    assert limit.left is None


def test_an_error_leaves_no_end_behind() -> None:
    limit = limit_at([0.0])
    with pytest.raises(ZeroDivisionError), limit.ending(5.0):
        raise ZeroDivisionError
    assert limit.left is None


@pytest.mark.attack("truth")
@pytest.mark.parametrize("source", ["import time\ntime.sleep(1000)", "while True: pass"])
def test_a_worker_that_is_not_there_in_time_is_given_up(tmp_path: Path, source: str) -> None:
    with (
        trials_for(tmp_path, source) as trials,
        trials.limit.ending(1.0),
        trials.worker() as worker,
        pytest.raises(BudgetOver, match="the budget ended while"),
    ):
        worker.wait_started()
