"""What could not be told."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hasten.bench.comparing.abba_blocks import MOST_ABBA_BLOCKS
from hasten.bench.comparing.decisions import least_kept
from hasten.bench.comparing.statistics import interval
from hasten.bench.script_bench import SEARCH_PAIRS
from hasten.records.conclusion import Resolution
from hasten.records.plan import BASELINE
from hasten.records.reasons import Reason
from hasten.records.result import Tried
from hasten.records.trial import Ratio
from hasten.tuning.resolution import (
    percent_up,
    resolution_of,
    resolution_of_confirmation,
    resolution_of_search,
)
from tests.bench.made_up import trial

WIDE = [-0.03, 0.0, 0.03, 0.0, 0.0, 0.0]


def ratio_of(log_ratios: list[float], unit: str = "ABBA blocks") -> Ratio:
    found = interval(log_ratios, unit)
    assert found is not None
    return found


def row(log_ratios: list[float], unit: str = "ABBA blocks", kept: bool = False) -> Tried:
    return Tried("bf16", {}, ratio_of(log_ratios, unit), BASELINE, kept, Reason("no gain"), "live")


def asked(times: list[float]) -> float:
    return 100.0


@pytest.mark.parametrize(
    ("log_ratios", "percent"),
    [
        (WIDE, 4),
        ([-0.01, 0.0, 0.01], 5),
        ([0.1, 0.11, 0.1], None),  # slower
        ([0.1, -0.1], None),  # two values
    ],
)
def test_a_comparison_without_a_gain_says_what_it_could_not_tell(
    log_ratios: list[float], percent: int | None
) -> None:
    assert resolution_of(ratio_of(log_ratios)) == percent


def test_only_what_is_undecided_could_hide_a_gain() -> None:
    slower, faster = [0.2, 0.21, 0.2, 0.2], [-0.5, -0.51, -0.3]
    failed = replace(row(WIDE), ratio=None)
    tried = [row(slower), row(faster, kept=True), failed, row([0.3, -0.3])]
    assert resolution_of_search(tried, None) is None
    assert resolution_of_search([row(slower), row(WIDE)], None) == Resolution(4)


def test_the_least_steady_comparison_decides() -> None:
    near = [value / 10 for value in WIDE]
    both = resolution_of_search([row(near), row(WIDE)], None)
    assert both == resolution_of_search([row(WIDE), row(near)], None) == Resolution(4)
    assert resolution_of_search([row(near)], None) == Resolution(2)


@pytest.mark.parametrize(("unit", "most"), [("ABBA blocks", MOST_ABBA_BLOCKS), ("pairs", SEARCH_PAIRS)])
def test_no_more_is_promised_than_a_comparison_can_have(unit: str, most: int) -> None:
    """A hundred times as much time would not give more."""
    log_ratios = [-0.3, 0.0, 0.3]
    seen: list[float] = []

    def budget(times: float) -> float:
        seen.append(times)
        return 600.0

    found = resolution_of_search([row(log_ratios, unit)], budget)
    wanted = max(least_kept(ratio_of(log_ratios)) / 2, least_kept(ratio_of(log_ratios), most))
    assert found is not None
    assert (found.finer, found.budget) == (percent_up(wanted), 600.0)
    (times,) = seen
    assert 1 < times <= most / 3


def test_no_budget_is_named_where_none_finds_less() -> None:
    often = [0.03, -0.03] * (MOST_ABBA_BLOCKS // 2)
    found = resolution_of_search([row(often)], lambda times: 600.0)
    assert found is not None
    assert (found.finer, found.budget) == (None, None)


def test_fewer_pairs_than_a_claim_needs_say_nothing() -> None:
    assert resolution_of_confirmation(trial([0.9, 1.1, 1.0], BASELINE), 100.0) is None


@pytest.mark.parametrize(("gain", "percent"), [(0.01, 1), (0.0101, 2), (0.3, 30)])
def test_a_gain_is_rounded_up(gain: float, percent: int) -> None:
    assert percent_up(gain) == percent


def test_where_two_claims_are_at_stake_each_has_half_of_what_is_set_aside() -> None:
    """A third of the budget, so that twice the budget is needed."""
    log_ratios = [0.9, 1.1, 0.95, 1.05, 1.0, 1.02]
    one, two = (
        resolution_of_confirmation(replace(trial(log_ratios, BASELINE, claims=claims), seconds=60.0), 10.0)
        for claims in (1, 2)
    )
    assert one is not None
    assert one.budget is not None
    assert two is not None
    assert two.budget is not None
    assert two.budget > 1.5 * one.budget
