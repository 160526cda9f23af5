"""Ratios and what a trial may win by."""

from __future__ import annotations

import pytest

from hasten.records.plan import Plan
from hasten.records.trial import Ratio

from ..bench.made_up import trial

PLAN = Plan({"bf16": {}})


def test_a_ratio_of_times_is_a_speedup_turned_round() -> None:
    speedup = Ratio(0.8, 0.5, 1.25, 6, "pairs").inverted()
    assert (speedup.value, speedup.low, speedup.high) == pytest.approx((1.25, 0.8, 2.0))
    assert (speedup.count, speedup.unit) == (6, "pairs")


def test_a_trial_is_judged_by_its_pessimistic_end() -> None:
    measured = trial([0.8, 0.82, 0.78], PLAN)
    assert measured.ratio is not None
    assert measured.upper() == measured.ratio.high > 0.8


def test_a_failed_trial_can_win_nothing() -> None:
    assert trial([0.5, 0.5, 0.5], PLAN, failure="silent").upper() == float("inf")
