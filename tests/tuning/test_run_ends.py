"""What comes between the steps of a run and after its last one, plain and under a plan."""

from __future__ import annotations

import pytest

from hasten.bench.comparing.epoch_ends import EpochEnd
from hasten.records.plan import BASELINE, Plan
from hasten.records.run_forecast import Span
from hasten.tuning.run_ends import Between, Ends, Tail, between_part

STEADY = Ends(later=((0.6, 0.6), (0.6, 0.6)))
QUICK = Ends(later=((0.4, 0.4), (0.4, 0.4)))


def width(span: Span) -> float:
    return span.high - span.low


def test_the_ends_nearest_to_a_plan_are_taken() -> None:
    whole, half, other = (
        Plan({"bf16": {}, "malloc": {}}),
        Plan({"malloc": {}}),
        Plan({"threads": {"count": 1}}),
    )
    seen = [EpochEnd(half, 1.0, first=True), EpochEnd(other, 9.0), EpochEnd(half, 2.0)]
    assert Ends.under(whole, seen) == Ends(((1.0,),), ((2.0,),), (1.0, 9.0, 2.0))
    assert Ends.under(half, seen) == Ends(((1.0,),), ((2.0,),))
    assert Ends.under(BASELINE, seen) == Ends(((1.0,),), ((9.0, 2.0),), (1.0, 9.0, 2.0))
    assert Ends.under(whole, []) == Ends()
    settings = [EpochEnd(Plan({"threads": {"count": 2}}), 1.0), EpochEnd(other, 2.0)]
    assert Ends.under(other, settings) == Ends(later=((2.0,),))


def test_ends_of_one_process_stay_together() -> None:
    seen = [EpochEnd(BASELINE, float(n), process=n % 2) for n in range(4)]
    assert Ends.under(BASELINE, seen).later == ((0.0, 2.0), (1.0, 3.0))
    assert Ends.under(BASELINE, seen).each == 1.5


def test_each_arm_has_its_own() -> None:
    plain, planned = Between(STEADY, QUICK, every=200.0).spans(1000, whole=False)
    assert (plain.value, planned.value) == pytest.approx((5 * 0.6, 5 * 0.4))


def test_a_whole_run_has_as_many_as_were_counted() -> None:
    plain, _ = Between(STEADY, QUICK, every=200.0, in_run=4).spans(1000, whole=True)
    assert plain.value == pytest.approx(4 * 0.6)
    assert Between(STEADY, QUICK, every=200.0, in_run=0).spans(1000, whole=True)[0] == Span(0.0, 0.0, 0.0)


def test_the_first_of_a_process_counts_once() -> None:
    """Under a plan that keeps samples, the first evaluation makes those of the test set."""
    keeps = Between(STEADY, Ends(((2.0,), (2.2,)), ((0.1, 0.1), (0.1,))), every=200.0)
    assert keeps.spans(1000, whole=True)[1].value == pytest.approx(2.1 + 4 * 0.1)
    assert keeps.spans(1000, whole=False)[1].value == pytest.approx(5 * 0.1)


def test_how_long_the_first_takes_is_not_sure_either() -> None:
    uneven, even = (Ends(first, ((0.1, 0.1),)) for first in (((1.0,), (3.0,)), ((2.0,), (2.0,))))
    spans = [Between(STEADY, one, every=200.0).spans(200, whole=True)[1] for one in (uneven, even)]
    assert spans[0].value == spans[1].value
    assert width(spans[0]) > width(spans[1])


def test_where_only_first_ones_were_seen_under_the_plan_later_ones_may_take_anything_less() -> None:
    kind = Between(STEADY, Ends(((2.0,), (2.2,))), every=200.0)
    after = kind.spans(1000, whole=True)[1]
    more = 2.1 - 0.6
    assert after.value == pytest.approx(5 * 0.6 + more)
    assert after.low <= more
    assert after.high >= 5 * 2.2 + more
    assert kind.spans(200, whole=False)[1] == Span(pytest.approx(0.6), 0.0, pytest.approx(2.2))  # type: ignore[arg-type]


def test_those_seen_under_other_plans_alone_may_take_anything_up_to_the_longest() -> None:
    after = Between(STEADY, Ends(later=((0.5,), (0.5,)), others=(0.5, 0.5, 1.5)), every=200.0).spans(
        1000, False
    )[1]
    assert (after.value, after.low, after.high) == pytest.approx((5 * 0.5, 0.0, 5 * 1.5))


def test_kinds_of_one_process_are_slow_at_the_same_time() -> None:
    kinds = [Between(STEADY, QUICK, every=every) for every in (100.0, 250.0)]
    spans = [kind.spans(1000, False)[0] for kind in kinds]
    both = between_part(kinds, 1000, False).before
    assert both.value == pytest.approx(14 * 0.6)
    assert width(both) == pytest.approx(sum(map(width, spans)))


# ---- after the last step
def test_a_tail_that_was_seen_under_the_plan_is_told_as_it_was() -> None:
    part = Tail(Ends(later=((2.0,),)), Ends(later=((0.5,),)), saved=0.1).part()
    assert (part.before.value, part.after.value) == pytest.approx((2.0, 0.5))


def test_else_what_evaluations_gain_is_taken_off_and_may_not_be_gained() -> None:
    elsewhere = Ends(later=((2.0,),), others=(2.0,))
    part = Tail(Ends(later=((2.0,),)), elsewhere, saved=0.4).part()
    assert part.after.value == pytest.approx(1.6)
    assert part.after.high == part.before.high
    slower = Tail(Ends(later=((2.0,),)), elsewhere, saved=-0.4).part()
    assert slower.after.value == pytest.approx(2.4)
    assert slower.after.high == pytest.approx(slower.before.high + 0.4)
    assert slower.after.low == slower.before.low


def test_no_tail_takes_less_than_nothing() -> None:
    assert Tail(Ends(later=((0.2,),)), Ends(), saved=0.4).part().after.value == 0.0
