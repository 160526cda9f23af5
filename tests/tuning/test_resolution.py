"""What could not be told, in words."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hasten.bench.comparing.decisions import least_kept
from hasten.bench.comparing.live import MOST_ABBA_BLOCKS
from hasten.bench.comparing.statistics import interval
from hasten.bench.script_bench import SEARCH_PAIRS
from hasten.records.plan import BASELINE
from hasten.records.trial import Ratio
from hasten.records.verdict import Tried
from hasten.tuning.resolution import (
    confirmation_words,
    percent_up,
    search_words,
    trial_words,
)
from tests.bench.made_up import trial

WIDE = [-0.03, 0.0, 0.03, 0.0, 0.0, 0.0]


def ratio_of(log_ratios: list[float], unit: str = "ABBA blocks") -> Ratio:
    found = interval(log_ratios, unit)
    assert found is not None
    return found


def row(log_ratios: list[float], unit: str = "ABBA blocks", kept: bool = False) -> Tried:
    return Tried("bf16", {}, ratio_of(log_ratios, unit), BASELINE, kept, "-", "live")


def asked(times: list[float]) -> float:
    return 100.0


@pytest.mark.parametrize(
    ("log_ratios", "words"),
    [
        (WIDE, " (cannot tell under 4%)"),
        ([-0.01, 0.0, 0.01], " (cannot tell under 5%)"),
        ([0.1, 0.11, 0.1], ""),  # slower
        ([0.1, -0.1], ""),  # two values
    ],
)
def test_a_comparison_without_a_gain_says_what_it_could_not_tell(log_ratios: list[float], words: str) -> None:
    assert trial_words(ratio_of(log_ratios)) == words


def test_only_what_is_undecided_could_hide_a_gain() -> None:
    slower, faster = [0.2, 0.21, 0.2, 0.2], [-0.5, -0.51, -0.3]
    failed = replace(row(WIDE), ratio=None)
    assert search_words([row(slower), row(faster, kept=True), failed, row([0.3, -0.3])], None) == ""
    assert search_words([row(slower), row(WIDE)], None).startswith(". Cannot tell under 4%: ")


def test_the_least_steady_comparison_decides() -> None:
    near = [value / 10 for value in WIDE]
    assert search_words([row(near), row(WIDE)], None) == search_words([row(WIDE), row(near)], None)
    assert search_words([row(near)], None).startswith(". Cannot tell under 2%: ")


@pytest.mark.parametrize(("unit", "most"), [("ABBA blocks", MOST_ABBA_BLOCKS), ("pairs", SEARCH_PAIRS)])
def test_no_more_is_promised_than_a_comparison_can_have(unit: str, most: int) -> None:
    """A hundred times as much time would not give more."""
    log_ratios = [-0.3, 0.0, 0.3]
    seen: list[float] = []

    def budget(times: float) -> float:
        seen.append(times)
        return 600.0

    words = search_words([row(log_ratios, unit)], budget)
    wanted = max(least_kept(ratio_of(log_ratios)) / 2, least_kept(ratio_of(log_ratios), most))
    assert words.endswith(f"; a search under --budget 600 would find {percent_up(wanted)}")
    (times,) = seen
    assert 1 < times <= most / 3


def test_no_budget_is_named_where_none_finds_less() -> None:
    often = [0.03, -0.03] * (MOST_ABBA_BLOCKS // 2)
    assert search_words([row(often)], lambda times: 600.0).endswith("smaller ones less often")


def test_fewer_pairs_than_a_claim_needs_say_nothing() -> None:
    assert confirmation_words(trial([0.9, 1.1, 1.0], BASELINE), 100.0) == ""


@pytest.mark.parametrize(("gain", "words"), [(0.01, "1%"), (0.0101, "2%"), (0.3, "30%")])
def test_a_gain_is_rounded_up(gain: float, words: str) -> None:
    assert percent_up(gain) == words
