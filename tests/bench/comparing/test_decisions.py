"""What may be claimed, against simulation."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from statistics import stdev

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hasten.bench.comparing.decisions import (
    LOOKS_MOST,
    SLOW,
    Effort,
    all_much_slower,
    allowance,
    cannot_tell,
    clearly_worse,
    effort_to_find,
    excludes_gain,
    gains,
    is_clear,
    is_gain,
    is_slow,
    is_slower,
    known_well,
    least_found,
    likely,
    looks_needed,
    looks_of,
    lost_at_once,
    margin,
    shows_slow,
    slow_in,
    tells,
    worth_looking,
)
from hasten.records.thresholds import CLEAR_BELOW, KEEP_BELOW
from hasten.records.trial import Ratio

SPREAD = 0.036  # of the log ratio of two processes, as measured on a real machine
log_ratios_of_pairs = st.lists(st.floats(-0.5, 0.2), min_size=4, max_size=10)
pairs_that_gain = st.builds(
    lambda mean, apart: [mean + one for one in apart],
    st.floats(-0.2, -0.02),
    st.lists(st.floats(-0.01, 0.01), min_size=4, max_size=10),
)
times_alone = st.lists(st.floats(-0.1, 0.6), max_size=LOOKS_MOST)


def simulated(true_ratio: float, count: int, times: int) -> Iterator[list[float]]:
    """``times`` experiments of ``count`` normal log ratios each, always the same ones."""
    source = random.Random(20240501)
    for _ in range(times):
        yield [source.gauss(math.log(true_ratio), SPREAD) for _ in range(count)]


@pytest.mark.parametrize("count", [4, 6, 10])
@pytest.mark.parametrize("looks", [0, LOOKS_MOST])
def test_gains_are_hardly_ever_claimed_where_there_are_none(count: int, looks: int) -> None:
    times = 3000
    claims = sum(is_gain(log_ratios, [0.0] * looks) for log_ratios in simulated(1.0, count, times))
    assert claims / times < 0.015


@pytest.mark.parametrize("count", [4, 10])
def test_the_bound_is_at_99_percent(count: int) -> None:
    """With a true speedup of exactly the least that may be claimed, it is met one time in a hundred."""
    times = 5000
    met = sum(margin(log_ratios) > 0 for log_ratios in simulated(1 / 1.01, count, times))
    assert met / times == pytest.approx(0.01, abs=0.004)


@pytest.mark.attack("truth")
@pytest.mark.parametrize("count", [4, 10])
def test_one_of_two_claims_has_half_of_the_error(count: int) -> None:
    times = 20000
    claims = sum(margin(log_ratios, claims=2) > 0 for log_ratios in simulated(1 / 1.01, count, times))
    assert claims / times == pytest.approx(0.005, abs=0.0015)


@pytest.mark.parametrize("claims", [1, 2])
def test_what_would_be_found_is_told_by_the_error_that_is_used(claims: int) -> None:
    """In four of five."""
    near, pairs, times = [-0.1, -0.09, -0.11, -0.1], 6, 4000
    error = stdev(near)
    gain = least_found(near, pairs, claims=claims)
    source = random.Random(3)
    found = sum(
        is_gain([source.gauss(-math.log(1 + gain), error) for _ in range(pairs)], claims=claims)
        for _ in range(times)
    )
    assert found / times == pytest.approx(0.8, abs=0.02)
    assert least_found(near, pairs, claims=1) < least_found(near, pairs, claims=2)


def test_real_gains_are_claimed() -> None:
    claims = sum(is_gain(log_ratios) for log_ratios in simulated(0.7, 4, 200))
    assert claims > 190


def test_a_claim_needs_four_pairs() -> None:
    clear = [math.log(0.5), math.log(0.51), math.log(0.52), math.log(0.5)]
    assert not is_gain(clear[:3])
    assert looks_needed(clear[:3]) is None
    assert is_gain(clear)


def steady(speedup: float, pairs: int = 4) -> list[float]:
    return [-math.log(speedup) + noise for noise in (1e-7, -1e-7) * (pairs // 2)]


@pytest.mark.parametrize(("speedup", "claimed"), [(1.009, False), (1.011, True), (0.5, False)])
def test_a_claim_needs_one_percent(speedup: float, claimed: bool) -> None:
    assert is_gain(steady(speedup), [0.0] * 1000) is claimed


@pytest.mark.attack("truth")
@pytest.mark.parametrize(
    ("pairs", "looks", "least"),
    [(4, 0, 1.057), (6, 0, 1.057), (10, 0, 1.053), (4, 20, 1.029), (10, 20, 1.025), (10, 34, 1.021)],
)
def test_a_claim_holds_if_one_in_ten_or_the_next_were_slow(pairs: int, looks: int, least: float) -> None:
    """Pairs that agree: 1% and what such processes cost the mean."""
    assert not is_gain(steady(least - 0.001, pairs), [0.0] * looks)
    assert is_gain(steady(least + 0.001, pairs), [0.0] * looks)


@pytest.mark.attack("truth")
@pytest.mark.parametrize("slow_by", [SLOW, 0.3, 1.0, 3.0])
@pytest.mark.parametrize("alone", [2, 8, 20])
def test_a_slow_process_alone_counts_in_the_claim(slow_by: float, alone: int) -> None:
    looks = [0.0] * (alone - 1)
    added = allowance(steady(1.2), [*looks, slow_by]) - allowance(steady(1.2), [*looks, 0.0])
    assert added == pytest.approx(slow_by / max(10, 4 + alone + 1))


@pytest.mark.attack("truth")
@pytest.mark.parametrize("log_time", [-1.0, -0.1, 0.0, 0.1, 0.2])
def test_what_is_not_slow_is_a_process_that_was_seen_and_no_more(log_time: float) -> None:
    assert allowance(steady(1.2, 10), [log_time]) == pytest.approx(SLOW / 12)
    assert not is_slow(log_time)


@pytest.mark.attack("truth")
@pytest.mark.parametrize("pairs", [4, 6, 10])
@pytest.mark.parametrize("where", [0, -1])
def test_where_a_pair_was_slow_the_bound_has_it_in(pairs: int, where: int) -> None:
    log_ratios = steady(1.3, pairs)
    log_ratios[where] += SLOW
    assert shows_slow(log_ratios)
    assert allowance(log_ratios) == 0.0


@pytest.mark.attack("truth")
@pytest.mark.parametrize("pairs", [4, 5, 6, 7, 8, 9, 10])
@pytest.mark.parametrize("speedup", [1.05, 1.1, 1.2, 1.5])
def test_a_pair_that_is_slower_never_makes_a_claim(pairs: int, speedup: float) -> None:
    """The allowance goes where a pair is called slow; the bound must have grown by more."""
    source = random.Random(pairs)
    log_ratios = [-math.log(speedup) + source.gauss(0, 0.01) for _ in range(pairs)]
    before = margin(log_ratios) - allowance(log_ratios)
    for slower in range(1, 100):
        changed = [*log_ratios[:-1], max(log_ratios) + slower / 100]
        assert margin(changed) - allowance(changed) < before


@given(log_ratios_of_pairs, times_alone)
def test_no_claim_is_made_that_the_bound_alone_would_not(log_ratios: list[float], looks: list[float]) -> None:
    assert not is_gain(log_ratios, looks) or margin(log_ratios) > 0


@given(pairs_that_gain, times_alone)
def test_as_many_as_are_needed_make_it_a_claim_and_fewer_do_not(
    log_ratios: list[float], looks: list[float]
) -> None:
    needed = looks_needed(log_ratios, looks)
    assert (needed == 0) == is_gain(log_ratios, looks)
    assert (needed is None) == (margin(log_ratios) <= 0)
    if needed is not None and 0 < needed < 10_000:
        assert is_gain(log_ratios, [*looks, *[0.0] * (needed + 1)])
        assert not is_gain(log_ratios, [*looks, *[0.0] * (needed - 1)])


@given(log_ratios_of_pairs, times_alone, st.integers(0, 30))
def test_none_is_started_where_it_decides_nothing(
    log_ratios: list[float], looks: list[float], most: int
) -> None:
    if worth_looking(log_ratios, looks, most):
        assert not is_gain(log_ratios, looks)
        assert is_gain(log_ratios, [*looks, *[0.0] * (most - len(looks))])


def test_the_usual_process_is_the_median_of_those_in_pairs() -> None:
    """However many of those started besides are slow."""
    assert looks_of([1.0, 1.0, 1.0, 2.0, 1.0], 3) == pytest.approx([math.log(2), 0.0])
    assert looks_of([1.0, 1.0, 1.0, *[2.0] * 9], 3) == pytest.approx([math.log(2)] * 9)
    assert looks_of([1.0, 2.0], 2) == []


@pytest.mark.parametrize("pairs", [4, 6, 10])
@pytest.mark.parametrize("looks", [0, 6, LOOKS_MOST])
def test_the_least_gain_found_is_claimed_four_times_in_five(pairs: int, looks: int) -> None:
    """Where no process is slow, all that may be started are looked at in the end."""
    spread_exactly = [SPREAD / math.sqrt(2), -SPREAD / math.sqrt(2)]
    gain = least_found(spread_exactly, pairs, looks)
    times = 3000
    drawn = simulated(1 / (1 + gain), pairs, times)
    claims = sum(is_gain(log_ratios, [0.0] * looks) for log_ratios in drawn)
    assert claims / times == pytest.approx(0.8, abs=0.022)  # three standard errors


def test_how_far_pairs_lie_apart_decides_and_not_where_they_lie() -> None:
    near, far = [0.0, 0.01, 0.02, 0.03], [0.0, 0.1, 0.2, 0.3]
    assert least_found([0.5 + value for value in near], 4) == pytest.approx(least_found(near, 4))
    assert least_found(near, 4) < least_found(far, 4)
    assert least_found(near, 10) < least_found(near, 6) < least_found(near, 4)
    assert least_found(near, 10, 20) < least_found(near, 10, 2) < least_found(near, 10)


def test_pairs_that_agree_find_the_least_gain_and_what_may_be_unseen() -> None:
    assert least_found([-0.1] * 4, 4) == pytest.approx(1.01 * math.exp(SLOW / 10) - 1)
    assert least_found([-0.1] * 3 + [-0.1 + SLOW], 10**6) == pytest.approx(0.01, abs=1e-2)


MOST = Effort(10, LOOKS_MOST)


@pytest.mark.parametrize("effort", [*(Effort(n) for n in range(4, 11)), Effort(10, 1), Effort(10, 20)])
def test_as_much_effort_as_a_gain_takes(effort: Effort) -> None:
    log_ratios = [0.0, 0.05, -0.05, 0.02, -0.02, 0.0]
    gain = least_found(log_ratios, effort.pairs, effort.looks)
    assert effort_to_find(gain + 1e-9, log_ratios, MOST) == effort


def test_a_claim_takes_four_pairs_and_some_gains_are_too_small() -> None:
    log_ratios = [0.0, 0.05, -0.05, 0.02, -0.02, 0.0]
    assert effort_to_find(1.0, log_ratios, MOST) == Effort(4)
    assert effort_to_find(0.02, log_ratios, MOST) is None


def test_two_processes_alone_take_as_long_as_a_pair() -> None:
    assert Effort(4, 6).in_pairs == 7


# ---- the search
@pytest.mark.parametrize(
    ("low", "high", "kept", "slower", "clear"),
    [
        (0.90, 0.96, True, False, True),
        (0.90, 0.98, True, False, False),  # kept, were it to end here, and worth going on
        (0.90, 0.995, False, False, False),
        (0.98, 1.02, False, False, False),
        (1.001, 1.3, False, True, True),
    ],
)
def test_what_an_interval_decides(low: float, high: float, kept: bool, slower: bool, clear: bool) -> None:
    ratio = Ratio(math.sqrt(low * high), low, high, 5, "ABBA blocks")
    assert (gains(ratio), is_slower(ratio), is_clear(ratio)) == (kept, slower, clear)
    assert cannot_tell(ratio) != slower


def test_what_failed_decides_nothing() -> None:
    assert not any((gains(None), is_slower(None), likely(None), excludes_gain(None, True)))


def test_an_interval_that_is_narrow_tells_enough() -> None:
    assert known_well(Ratio(1.0, 0.996, 1.004, 5, "ABBA blocks"))
    assert not known_well(Ratio(1.0, 0.994, 1.006, 5, "ABBA blocks"))


def test_one_pair_may_leave_no_doubt() -> None:
    assert lost_at_once([0.23])
    assert not lost_at_once([0.22])
    assert not lost_at_once([-0.5])
    assert not lost_at_once([0.4, 0.4])
    assert not lost_at_once([])


def test_two_pairs_may_leave_no_doubt() -> None:
    assert clearly_worse([0.2, 0.4])
    assert not clearly_worse([0.4])
    assert not clearly_worse([0.1, 0.4])
    assert all_much_slower([0.06, 0.4])
    assert not all_much_slower([0.04, 0.4])
    assert not cannot_tell(Ratio(0.98, 0.5, 1.9, 2, "pairs"))  # how far two of them scatter is not known


NARROW, WIDE = Ratio(1.0, 0.97, 1.03, 5, "pairs"), Ratio(1.0, 0.7, 1.4, 5, "pairs")


@pytest.mark.parametrize(
    ("ratios", "worth"),
    [
        ([], True),
        ([NARROW, WIDE, NARROW], True),
        ([NARROW, WIDE, WIDE], False),
        ([WIDE, Ratio(1.4, 1.2, 1.7, 5, "pairs")], False),
        ([Ratio(1.4, 1.2, 1.7, 5, "pairs")], True),
    ],
    ids=["none yet", "most tell", "most do not", "one does not, one is slower", "slower"],
)
def test_more_comparisons_are_worth_their_time_where_these_tell(ratios: list[Ratio], worth: bool) -> None:
    assert tells(ratios) is worth


@pytest.mark.parametrize("low", [0.5, 0.969, 0.971, 0.989, 0.991, 1.1])
def test_what_gained_once_is_given_up_less_easily(low: float) -> None:
    ratio = Ratio(low * 1.1, low, low * 1.2, 5, "pairs")
    assert excludes_gain(ratio, proven=False) == (low >= CLEAR_BELOW)
    assert excludes_gain(ratio, proven=True) == (low >= KEEP_BELOW)


def test_a_slow_process_is_slow_in_its_steps_alone() -> None:
    """22 s instead of 14 for the steps of a run of 28 s: 36 instead of 28."""
    assert slow_in(1.0) == pytest.approx(SLOW)
    assert slow_in(0.0) == 0.0
    assert slow_in(0.5) == pytest.approx(math.log(36 / 28))
    logs = [math.log(1 / 1.045)] * 6
    assert not is_gain(logs)
    assert is_gain(logs, slow=slow_in(0.5))
