"""Ratios over rounds."""

from __future__ import annotations

import pytest
from benchmarks.rounds import of_rounds, ratio_of


def rows(*rounds: tuple[float, float]) -> list[dict[str, object]]:
    """Seconds of two kinds in each round; each was measured twice, the second time twice as long."""
    return [
        {"round": number, "kind": kind, "step": seconds * times}
        for number, pair in enumerate(rounds)
        for kind, seconds in zip(("ours", "theirs"), pair, strict=True)
        for times in (1, 2)
    ]


def test_a_round_counts_by_its_mean() -> None:
    assert of_rounds(rows((2.0, 4.0), (6.0, 4.0)), "ours", "step") == [3.0, 9.0]


def test_the_ratio_is_that_of_the_first_over_the_second() -> None:
    found = ratio_of(rows((2.0, 4.0), (1.0, 2.0), (3.0, 6.0)), "ours", "theirs", "step")
    assert found is not None
    assert (found.value, found.low, found.high) == pytest.approx((0.5, 0.5, 0.5))
    scattered = ratio_of(rows((2.0, 4.0), (2.0, 2.0), (2.0, 8.0)), "ours", "theirs", "step")
    assert scattered is not None
    assert scattered.low < 0.5 < scattered.high


def test_a_single_round_tells_none() -> None:
    assert ratio_of(rows((2.0, 4.0)), "ours", "theirs", "step") is None
