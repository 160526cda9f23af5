"""Intervals of single runs: in so many of ten they hold what comes."""

from __future__ import annotations

import random
from collections.abc import Sequence
from statistics import NormalDist

import pytest

from hasten.records.run_forecast import Span
from hasten.tuning.run_spans import SEEN_ONCE, independent, less, several, together

RUNS = 2000
MEAN = 1.0


def draws(chance: random.Random, counts: Sequence[int], between: float, within: float) -> list[list[float]]:
    """Of processes that lie apart by ``between``, draws within each by ``within`` (standard deviations)."""
    found = []
    for count in counts:
        own = chance.gauss(MEAN, between)
        found.append([chance.gauss(own, within) for _ in range(count)])
    return found


def held(counts: Sequence[int], times: int, between: float, within: float, seed: int = 0) -> float:
    """The share of runs whose ends, so many ``times``, take what was predicted."""
    chance, inside = random.Random(seed), 0
    for _ in range(RUNS):
        span = several(draws(chance, counts, between, within), times)
        (run,) = draws(chance, [times], between, within)
        inside += span.low <= sum(run) <= span.high
    return inside / RUNS


@pytest.mark.attack("truth")
@pytest.mark.parametrize("times", [1, 5, 50])
@pytest.mark.parametrize(
    ("counts", "between", "within"),
    [
        ([4] * 4, 0.1, 0.0),  # processes differ, and all that one has is alike
        ([4] * 4, 0.0, 0.1),  # processes are alike, and what one has differs
        ([4] * 4, 0.05, 0.05),
        ([1] * 6, 0.1, 0.02),  # nothing tells the two apart
        ([1, 9, 2, 4], 0.08, 0.03),
        ([5, 5], 0.06, 0.02),
        ([6], 0.06, 0.02),  # one process tells nothing of others
        ([1], 0.06, 0.02),
    ],
)
def test_nine_of_ten_runs_lie_within(counts: list[int], times: int, between: float, within: float) -> None:
    assert held(counts, times, between, within) >= 0.9


def test_many_ends_average_out_what_differs_within_a_process_and_not_between() -> None:
    def half(between: float, within: float, times: int) -> float:
        """Of one, as a mean over many tunes."""
        chance = random.Random(1)
        spans = [several(draws(chance, [8] * 6, between, within), times) for _ in range(200)]
        return sum(span.high - span.value for span in spans) / len(spans) / times

    assert half(0.0, 0.2, 100) < 0.75 * half(0.0, 0.2, 1)
    assert half(0.2, 0.0, 100) == pytest.approx(half(0.2, 0.0, 1))


@pytest.mark.parametrize("times", [1, 20])
def test_what_was_seen_once_may_be_off_by_a_quarter(times: int) -> None:
    span = several([(2.0,)], times)
    assert (span.high - span.value) / span.value == pytest.approx(SEEN_ONCE)


def test_two_processes_that_agree_tell_more_than_one() -> None:
    one, two, apart = several([(2.0,)], 5), several([(2.0,), (2.0,)], 5), several([(1.5,), (2.5,)], 5)
    assert two.high < one.high < apart.high


# ---- sums
A, B = Span(10.0, 7.0, 14.0), Span(5.0, 1.0, 8.0)


def test_what_errs_by_itself_adds_its_squares() -> None:
    assert independent([A, B]) == Span(15.0, 10.0, 20.0)
    assert less(A, B) == Span(5.0, pytest.approx(5 - (9 + 9) ** 0.5), pytest.approx(5 + 32**0.5))  # type: ignore[arg-type]


def test_what_errs_at_the_same_time_adds_up() -> None:
    assert together([A, B]) == Span(15.0, 8.0, 22.0)


def test_the_made_up_draws_scatter_as_they_are_to() -> None:
    """Else the tests above would hold for nothing."""
    chance = random.Random(2)
    means = [sum(one) / 50 for one in draws(chance, [50] * RUNS, 0.1, 0.05)]
    fitted = NormalDist.from_samples(means)
    assert fitted.mean == pytest.approx(MEAN, abs=0.01)
    assert fitted.stdev == pytest.approx(0.1, rel=0.1)
