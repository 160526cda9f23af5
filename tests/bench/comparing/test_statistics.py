"""Intervals and claims, against scipy and against simulation."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator

import pytest
from scipy import stats  # type: ignore[import-untyped]

from hasten.bench.comparing.decisions import count_to_keep, least_kept
from hasten.bench.comparing.statistics import (
    claim_probability,
    combined,
    interval,
    mean_interval,
    robust_interval,
    t_probability,
    t_quantile,
)
from hasten.records.thresholds import KEEP_BELOW
from hasten.records.trial import Ratio

DEGREES = [*range(1, 31), 47, 100, 101, 250]
SPREAD = 0.036  # of the log ratio of two processes, as measured on a real machine


@pytest.mark.parametrize("degrees", DEGREES)
def test_the_probability_is_students(degrees: int) -> None:
    for t in (0.0, 0.1, 0.5, 1.0, 2.0, 4.5, 12.7, 100.0):
        expected = 1 - 2 * float(stats.t.sf(t, degrees))
        assert t_probability(t, degrees) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("degrees", DEGREES)
def test_the_quantile_is_students(degrees: int) -> None:
    for level in (0.01, 0.5, 0.8, 0.9, 0.95, 0.98, 0.99, 0.999):
        expected = float(stats.t.ppf((1 + level) / 2, degrees))
        assert t_quantile(level, degrees) == pytest.approx(expected, rel=1e-7)


@pytest.mark.parametrize("confidence", [0.8, 0.95, 0.99])
def test_the_interval_is_scipys(confidence: float) -> None:
    log_ratios = [-0.21, -0.13, 0.02, -0.3, -0.11]
    low, high = stats.t.interval(
        confidence, len(log_ratios) - 1, loc=sum(log_ratios) / 5, scale=stats.sem(log_ratios)
    )
    found = interval(log_ratios, "pairs", confidence)
    assert found is not None
    assert (found.low, found.high) == pytest.approx((math.exp(low), math.exp(high)), rel=1e-7)
    assert found.value == pytest.approx(math.exp(sum(log_ratios) / 5))
    assert (found.count, found.unit) == (5, "pairs")


def test_an_inverted_interval_is_the_interval_of_the_inverses() -> None:
    log_ratios = [-0.2, -0.1, -0.4]
    found, mirrored = interval(log_ratios, "pairs"), interval([-x for x in log_ratios], "pairs")
    assert found is not None
    assert mirrored is not None
    turned = found.inverted()
    assert (turned.value, turned.low, turned.high) == pytest.approx(
        (mirrored.value, mirrored.low, mirrored.high)
    )


@pytest.mark.parametrize("log_ratios", [[], [0.3]])
def test_no_interval_from_fewer_than_two_values(log_ratios: list[float]) -> None:
    assert interval(log_ratios, "ABBA blocks") is None


def simulated(true_ratio: float, count: int, times: int) -> Iterator[list[float]]:
    """``times`` experiments of ``count`` normal log ratios each, always the same ones."""
    source = random.Random(20240501)
    for _ in range(times):
        yield [source.gauss(math.log(true_ratio), SPREAD) for _ in range(count)]


@pytest.mark.parametrize("count", [2, 5, 10])
def test_the_interval_covers_the_truth_as_often_as_it_says(count: int) -> None:
    times, covered = 3000, 0
    for log_ratios in simulated(0.85, count, times):
        found = interval(log_ratios, "pairs")
        assert found is not None
        covered += found.low <= 0.85 <= found.high
    assert covered / times == pytest.approx(0.95, abs=0.012)  # three standard errors


def test_a_means_interval_is_scipys() -> None:
    values = [0.1, -0.2, 0.05, 0.3]
    low, high = stats.t.interval(0.95, 3, loc=sum(values) / 4, scale=stats.sem(values))
    found = mean_interval(values)
    assert found is not None
    assert (found.value, found.low, found.high) == pytest.approx((sum(values) / 4, low, high), rel=1e-7)
    assert mean_interval([0.1]) is None


@pytest.mark.parametrize("pairs", [4, 5, 6, 10, 30])
def test_the_chance_of_a_claim_is_that_of_the_noncentral_t(pairs: int) -> None:
    bound = float(stats.t.ppf(0.99, pairs - 1))
    for excess in (0.0, 0.5, 2.0, 4.0, 6.0, 9.0):
        expected = float(stats.nct.sf(bound, pairs - 1, excess))
        assert claim_probability(excess, pairs) == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("count", [3, 5, 24])
def test_the_least_gain_kept_is_kept_four_times_in_five(count: int) -> None:
    """By the search's own rule: the 95% interval ends below ``KEEP_BELOW``."""
    ratio = interval([SPREAD / math.sqrt(2), -SPREAD / math.sqrt(2)], "ABBA blocks")
    assert ratio is not None
    gain = least_kept(ratio, count)
    times, kept = 3000, 0
    for log_ratios in simulated(1 / (1 + gain), count, times):
        found = interval(log_ratios, "ABBA blocks")
        assert found is not None
        kept += found.high < KEEP_BELOW
    assert kept / times == pytest.approx(0.8, abs=0.022)  # three standard errors


def test_as_many_units_as_it_takes_to_keep_a_gain() -> None:
    ratio = interval([0.0, 0.05, -0.05, 0.02, -0.02, 0.0], "ABBA blocks")
    assert ratio is not None
    assert least_kept(ratio) == least_kept(ratio, 6)
    for count in range(3, 25):
        assert count_to_keep(least_kept(ratio, count) + 1e-9, ratio, 24) == count
    assert count_to_keep(0.0101, ratio, 24) is None


# ---- comparisons of the search
def abba_blocks(source: random.Random, effect: float, disturbed: float, count: int = 24) -> list[float]:
    """Of which this share is spoilt by one contended block, in either plan."""

    def spoilt() -> float:
        return source.choice([-1, 1]) * source.uniform(0.1, 0.6) if source.random() < disturbed else 0.0

    return [math.log(effect) + source.gauss(0.0, 0.01) + spoilt() for _ in range(count)]


@pytest.mark.attack("truth")
@pytest.mark.parametrize("disturbed", [0.0, 0.1, 0.25])
@pytest.mark.parametrize("count", [5, 8, 24])
def test_what_does_nothing_is_hardly_ever_kept(disturbed: float, count: int) -> None:
    source = random.Random(7)
    ratios = (robust_interval(abba_blocks(source, 1.0, disturbed, count), "ABBA blocks") for _ in range(1000))
    assert sum(ratio is not None and ratio.high < KEEP_BELOW for ratio in ratios) <= 20


@pytest.mark.attack("truth")
@pytest.mark.parametrize(
    ("disturbed", "usual", "robust"), [(0.0, 1.0, 1.0), (0.1, 0.5, 0.95), (0.25, 0.3, 0.6)]
)
def test_a_small_gain_is_kept_though_blocks_are_spoilt(disturbed: float, usual: float, robust: float) -> None:
    source = random.Random(7)
    drawn = [abba_blocks(source, 0.97, disturbed) for _ in range(300)]

    def kept(how: Callable[[list[float], str], Ratio | None]) -> int:
        ratios = (how(values, "ABBA blocks") for values in drawn)
        return sum(ratio is not None and ratio.high < KEEP_BELOW for ratio in ratios)

    assert kept(interval) <= usual * 300
    assert kept(robust_interval) >= robust * 300


@pytest.mark.parametrize("count", [0, 1, 2, 4])
def test_of_few_values_none_is_left_out(count: int) -> None:
    values = [0.1 * n for n in range(count)]
    assert robust_interval(values, "ABBA blocks") == interval(values, "ABBA blocks")


def test_values_that_are_all_equal_are_one_point() -> None:
    ratio = robust_interval([math.log(0.8)] * 6, "ABBA blocks")
    assert ratio is not None
    assert (ratio.low, ratio.high) == pytest.approx((0.8, 0.8))


def ratio_of(value: float, half: float, count: int = 6) -> Ratio:
    return Ratio(value, value * math.exp(-half), value * math.exp(half), count, "pairs")


@pytest.mark.attack("truth")
@pytest.mark.parametrize("half", [1e-6, 0.01, 0.3])
def test_two_that_agree_are_surer_than_one(half: float) -> None:
    both = combined([ratio_of(0.9, half), ratio_of(0.9, half)])
    assert both.value == pytest.approx(0.9)
    assert math.log(both.high / both.low) / 2 < half
    assert both.count == 12


@pytest.mark.attack("truth")
@pytest.mark.parametrize("noisy_first", [True, False])
def test_a_noisy_minute_weighs_little(noisy_first: bool) -> None:
    two = [ratio_of(1.05, 1.1), ratio_of(0.8, 0.02)]
    both = combined(two if noisy_first else two[::-1])
    assert both.value == pytest.approx(0.8, rel=0.01)
    assert both.high < 0.83


def test_one_alone_is_itself() -> None:
    one = combined([ratio_of(0.9, 0.05)])
    assert (one.value, one.low, one.high) == pytest.approx((0.9, 0.9 * math.exp(-0.05), 0.9 * math.exp(0.05)))


def test_equal_values_give_no_certainty_beyond_measure() -> None:
    assert combined([ratio_of(0.9, 0.0), ratio_of(0.8, 0.0)]).value == pytest.approx(math.sqrt(0.72))


@pytest.mark.attack("truth")
@pytest.mark.parametrize(("first", "second"), [(0.01, 0.01), (0.1, 0.01), (0.01, 0.1), (0.3, 0.01)])
@pytest.mark.parametrize("counts", [(5, 5), (3, 5), (6, 24)])
def test_the_interval_of_both_holds_the_truth(first: float, second: float, counts: tuple[int, int]) -> None:
    source = random.Random(3)
    held = 0
    for _ in range(1000):
        values = [
            [source.gauss(0.0, sd) for _ in range(n)] for sd, n in zip((first, second), counts, strict=True)
        ]
        ratios = [interval(one, "pairs") for one in values]
        both = combined([ratio for ratio in ratios if ratio is not None])
        held += both.low <= 1 <= both.high
    assert held >= 900
