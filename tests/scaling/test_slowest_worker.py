"""How long a step waits for the slowest, against draws."""

from __future__ import annotations

import math
import random
from statistics import fmean

import pytest

from hasten.scaling.slowest_worker import slowest


def drawn(count: int, deviation: float, seed: int = 1) -> list[float]:
    draw = random.Random(seed)
    return [math.exp(draw.gauss(0, deviation)) for _ in range(count)]


def test_steps_that_never_vary_wait_for_nobody() -> None:
    found = slowest([1.0] * 30, 1000)
    assert (found.low, found.mid, found.high) == (1.0, 1.0, 1.0)


def test_one_worker_waits_for_nobody() -> None:
    spread = drawn(400, 0.05)
    assert slowest(spread, 1).low == pytest.approx(1.0, abs=0.01)
    assert slowest(spread, 1).high == pytest.approx(fmean(spread), abs=0.01)


@pytest.mark.parametrize("workers", [2, 8, 64])
def test_the_truth_lies_within(workers: int) -> None:
    """Of many draws the mean of the slowest; what was measured are 300 steps."""
    draw = random.Random(7)
    truth = fmean(max(math.exp(draw.gauss(0, 0.1)) for _ in range(workers)) for _ in range(4000))
    found = slowest(drawn(300, 0.1), workers)
    assert found.low * 0.98 <= truth <= found.high * 1.02


def test_more_workers_wait_longer_and_what_was_seen_is_the_least() -> None:
    spread = drawn(60, 0.1)
    found = [slowest(spread, workers) for workers in (2, 16, 1024, 10**6)]
    assert [one.mid for one in found] == sorted(one.mid for one in found)
    assert found[-1].low <= max(spread) < found[-1].high


def test_nothing_is_known_of_a_single_step() -> None:
    assert slowest([1.0], 1000).high == 1.0
    assert slowest([], 8).mid == 1.0
