"""What a plan means for a whole run: arithmetic over what was measured."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hasten.bench.comparing.epoch_ends import EpochEnd
from hasten.records.plan import BASELINE, Plan
from hasten.records.run_forecast import RunForecast, RunLength, SeenProcess, Span
from hasten.records.trial import Ratio
from hasten.tuning.run_forecast import STEPS, Ends, Measured, forecast

RATIO = Ratio(0.5, 0.45, 0.55, 4, "pairs")
PLAIN = tuple(SeenProcess(start, step) for start, step in ((4.0, 0.02), (4.2, 0.0201), (4.1, 0.0199)))
PLANNED = tuple(replace(one, step_seconds=one.step_seconds / 2, setup_seconds=1.0) for one in PLAIN)
RUN = RunLength(1000, 200, "seen")
SEEN = Measured(
    ratio=RATIO,
    plain=PLAIN,
    planned=PLANNED,
    start_seconds=3.0,
    setup_seconds=1.0,
    length=RUN,
    ends_plain=Ends(later=(0.6, 0.6, 0.6)),
    ends_planned=Ends(later=(0.4, 0.4, 0.4)),
    ends_every=200.0,
)


def told(seen: Measured, tune_seconds: float = 100.0) -> RunForecast:
    found = forecast(seen, tune_seconds)
    assert found is not None
    return found


def width(span: Span) -> float:
    return span.high - span.low


def part(found: RunForecast, name: str) -> tuple[Span, Span]:
    (one,) = (one for one in found.parts if one.name == name)
    return one.before, one.after


def test_a_run_is_the_sum_of_its_parts() -> None:
    found = told(SEEN)
    assert (found.of, found.steps, found.epochs, found.assumed) == ("run", 1000, 5, ())
    assert found.before.value == pytest.approx(3.0 + 999 * 0.02 + 5 * 0.6, rel=1e-4)
    assert found.after.value == pytest.approx(3.0 + 999 * 0.01 + 5 * 0.4 + 1.0, rel=1e-4)
    assert found.saved.value == pytest.approx(found.before.value - found.after.value)
    assert [one.name for one in found.parts] == ["start", "steps", "epoch ends", "set-up"]


def test_the_steps_under_the_plan_are_those_of_the_claim() -> None:
    """Not what the processes happen to say: the claim is what is printed above."""
    seen = replace(SEEN, planned=tuple(replace(one, step_seconds=0.02) for one in PLANNED))
    before, after = part(told(seen), "steps")
    assert after.value / before.value == pytest.approx(RATIO.value)


def test_when_a_tune_has_paid() -> None:
    found = told(SEEN, 100.0)
    assert found.pays_runs == math.ceil(100.0 / found.saved.value)
    assert found.pays_steps is not None
    for steps, pays in ((found.pays_steps, True), (found.pays_steps - 2, False)):
        saved = told(replace(SEEN, length=RunLength(steps, 200, "seen"))).saved.value
        assert (saved + 0.02 >= 100.0) is pays
    assert found.pays_epochs == math.ceil(found.pays_steps / 200)


def test_of_an_epoch_and_of_steps_neither_start_nor_set_up_is_told() -> None:
    epoch = told(replace(SEEN, length=RunLength(None, 200, "loader")))
    assert (epoch.of, epoch.steps, epoch.epochs, epoch.pays_runs) == ("epoch", 200, None, None)
    assert epoch.before.value == pytest.approx(200 * 0.02 + 0.6, rel=1e-4)
    assert epoch.assumed == ("length by loader",)
    steps = told(replace(SEEN, length=RunLength()))
    assert (steps.of, steps.steps, steps.pays_epochs) == ("steps", STEPS, None)
    assert [one.name for one in steps.parts] == ["steps", "epoch ends"]
    assert steps.pays_steps == epoch.pays_steps == told(SEEN).pays_steps


def test_a_start_that_takes_longer_counts_and_is_told() -> None:
    slow = tuple(replace(one, start_seconds=1.5 * one.start_seconds) for one in PLANNED)
    found, usual = told(replace(SEEN, planned=slow)), told(SEEN)
    assert found.slower_start == pytest.approx(1.5)
    assert usual.slower_start == 0.0
    assert found.after.value == pytest.approx(usual.after.value + 1.5)
    assert found.saved.value == pytest.approx(usual.saved.value - 1.5)


def test_a_start_that_may_be_slower_by_chance_is_not_told() -> None:
    uneven = tuple(
        replace(one, start_seconds=one.start_seconds * times)
        for one, times in zip(PLANNED, (2.0, 0.9, 1.0), strict=True)
    )
    assert told(replace(SEEN, planned=uneven)).slower_start == 0.0


def test_the_start_of_our_own_command_counts() -> None:
    found, usual = told(replace(SEEN, command_seconds=0.4)), told(SEEN)
    assert found.before == usual.before
    assert found.after.value == pytest.approx(usual.after.value + 0.4)
    assert found.saved.value == pytest.approx(usual.saved.value - 0.4)
    assert found.slower_start == 0.0
    assert part(found, "hasten")[1].value == 0.4
    epoch = told(replace(SEEN, command_seconds=0.4, length=RunLength(None, 200, "loader")))
    assert "hasten" not in [one.name for one in epoch.parts]


def test_a_set_up_that_a_short_run_does_not_earn_back_is_no_gain() -> None:
    found = told(replace(SEEN, setup_seconds=30.0, length=RunLength(1000, 200, "seen")))
    assert not found.is_faster
    assert (found.pays_runs, found.pays_epochs, found.pays_steps) == (None, None, None)


def test_what_was_not_seen_is_named_and_makes_it_less_sure() -> None:
    unseen = told(replace(SEEN, ends_plain=Ends(), ends_planned=Ends(), ends_every=None))
    assert unseen.assumed == ("ends unseen",)
    assert width(unseen.before) > width(told(SEEN).before)
    assert width(unseen.after) > width(told(SEEN).after)
    once = told(replace(SEEN, ends_plain=Ends(later=(0.6,))))
    assert once.assumed == ("ends seen once",)
    assert width(once.before) > width(told(SEEN).before)


def test_ends_seen_under_other_plans_alone_may_take_anything_up_to_the_longest() -> None:
    others = Ends(later=(0.5, 0.5), others=(0.5, 0.5, 1.5))
    found = told(replace(SEEN, ends_planned=others))
    assert found.assumed == ("ends of other plans",)
    after = part(found, "epoch ends")[1]
    assert (after.value, after.low, after.high) == pytest.approx((5 * 0.5, 0.0, 5 * 1.5))


def test_the_ends_nearest_to_a_plan_are_taken() -> None:
    whole, half, other = (
        Plan({"bf16": {}, "malloc": {}}),
        Plan({"malloc": {}}),
        Plan({"threads": {"count": 1}}),
    )
    seen = [EpochEnd(half, 1.0, first=True), EpochEnd(other, 9.0), EpochEnd(half, 2.0)]
    assert Ends.under(whole, seen) == Ends((1.0,), (2.0,), (1.0, 9.0, 2.0))
    assert Ends.under(half, seen) == Ends((1.0,), (2.0,))
    assert Ends.under(BASELINE, seen) == Ends((1.0,), (9.0, 2.0), (1.0, 9.0, 2.0))
    assert Ends.under(whole, []) == Ends()
    settings = [EpochEnd(Plan({"threads": {"count": 2}}), 1.0), EpochEnd(other, 2.0)]
    assert Ends.under(other, settings) == Ends(later=(2.0,))


def test_the_first_end_of_a_process_counts_once() -> None:
    """Under a plan that keeps samples, the first evaluation makes those of the test set."""
    found = told(replace(SEEN, ends_planned=Ends((2.0, 2.2), (0.1, 0.1, 0.1))))
    assert part(found, "epoch ends")[1].value == pytest.approx(2.1 + 4 * 0.1)
    epoch = told(
        replace(SEEN, ends_planned=Ends((2.0, 2.2), (0.1, 0.1)), length=RunLength(None, 200, "loader"))
    )
    assert part(epoch, "epoch ends")[1].value == pytest.approx(0.1)


def test_where_only_first_ends_were_seen_under_the_plan_later_ones_may_take_anything_less() -> None:
    found = told(replace(SEEN, ends_planned=Ends((2.0, 2.2))))
    assert found.assumed == ("ends as plain",)
    after = part(found, "epoch ends")[1]
    more = 2.1 - 0.6
    assert (after.value, after.low, after.high) == pytest.approx((5 * 0.6 + more, more, 5 * 2.2 + more))
    epoch = told(replace(SEEN, ends_planned=Ends((2.0, 2.2)), length=RunLength(None, 200, "loader")))
    assert part(epoch, "epoch ends")[1] == Span(pytest.approx(0.6), 0.0, pytest.approx(2.2))  # type: ignore[arg-type]


@pytest.mark.parametrize("processes", [(), PLAIN[:1]], ids=["none", "one"])
def test_without_two_pairs_nothing_is_told(processes: tuple[SeenProcess, ...]) -> None:
    assert forecast(replace(SEEN, plain=processes), 100.0) is None


def test_where_no_start_was_told_both_take_what_was_observed() -> None:
    silent = tuple(replace(one, start_seconds=0.0) for one in PLANNED)
    before, after = part(told(replace(SEEN, planned=silent)), "start")
    assert before == after
    assert before.value == 3.0


# ---- whatever was measured
seconds = st.floats(1e-4, 1e3)
lengths = st.one_of(
    st.just(RunLength()),
    st.builds(lambda epoch: RunLength(None, epoch, "loader"), st.integers(1, 10**5)),
    st.builds(
        lambda steps, epoch: RunLength(steps, epoch, "seen"), st.integers(1, 10**6), st.integers(1, 10**5)
    ),
)
times = st.lists(st.floats(0.0, 100.0), max_size=6).map(tuple)
endings = st.builds(Ends, times, times)


@st.composite
def ratios(draw: st.DrawFn) -> Ratio:
    value = draw(st.floats(0.05, 2.0))
    low, high = draw(st.floats(0.3, 1.0)), draw(st.floats(1.0, 3.0))
    return Ratio(value, value * low, value * high, 4, "pairs")


@st.composite
def measured(draw: st.DrawFn) -> Measured:
    pairs = draw(st.lists(st.tuples(*[st.builds(SeenProcess, seconds, seconds)] * 2), min_size=2, max_size=8))
    ends, planned = draw(endings), draw(endings)
    return Measured(
        ratio=draw(ratios()),
        plain=tuple(a for a, _ in pairs),
        planned=tuple(b for _, b in pairs),
        start_seconds=draw(seconds),
        setup_seconds=draw(st.floats(0.0, 1e3)),
        length=draw(lengths),
        ends_plain=ends,
        ends_planned=planned,
        ends_every=draw(st.floats(1.0, 1e5)) if ends.seconds else None,
        command_seconds=draw(st.floats(0.0, 10.0)),
    )


@given(measured(), st.floats(1.0, 1e5))
def test_no_gain_is_told_where_the_claim_does_not_exclude_none(seen: Measured, tune_seconds: float) -> None:
    found = forecast(seen, tune_seconds)
    assert (found is None) is (seen.ratio.high >= 1)


@given(measured(), st.floats(1.0, 1e5))
def test_values_lie_in_their_intervals_and_no_time_is_below_nothing(
    seen: Measured, tune_seconds: float
) -> None:
    found = forecast(seen, tune_seconds)
    if found is None:
        return
    spans = [found.before, found.after, *(span for one in found.parts for span in (one.before, one.after))]
    for span in spans:
        assert 0 <= span.low <= span.value * (1 + 1e-9)
        assert span.value <= span.high * (1 + 1e-9)
    assert found.saved.low <= found.saved.value <= found.saved.high
    assert found.saved.value == pytest.approx(
        found.before.value - found.after.value, rel=1e-6, abs=1e-6 * found.before.value
    )


@given(measured(), st.floats(1.0, 1e5))
def test_a_tune_pays_only_where_a_run_is_surely_faster(seen: Measured, tune_seconds: float) -> None:
    found = forecast(seen, tune_seconds)
    if found is None:
        return
    assert (found.pays_runs is not None) is (found.is_faster and found.of == "run")
    if found.is_faster:
        assert found.saved.value > 0
        if found.pays_runs is not None:
            assert found.pays_runs * found.saved.value >= tune_seconds * (1 - 1e-9)
    else:
        assert found.pays_epochs is found.pays_steps is None


@given(measured())
def test_what_is_unseen_never_makes_a_run_more_certain(seen: Measured) -> None:
    """As against the same run whose ends were seen to take nothing."""
    none = Ends(later=(0.0, 0.0))
    nothing = replace(seen, ends_plain=none, ends_planned=none, ends_every=100.0)
    unseen = replace(seen, ends_plain=Ends(), ends_planned=Ends(), ends_every=None)
    known, open_ended = forecast(nothing, 100.0), forecast(unseen, 100.0)
    assert (known is None) is (open_ended is None)
    if known is not None and open_ended is not None:
        for wider, narrower in ((open_ended.after, known.after), (open_ended.before, known.before)):
            assert wider.high >= narrower.high + 0.09 * narrower.value or narrower.high > 1e9 * narrower.value
            assert wider.low == narrower.low
        assert "ends unseen" in open_ended.assumed
