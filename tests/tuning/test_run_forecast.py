"""What a plan means for a whole run: arithmetic over what was measured."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hasten.bench.comparing.statistics import interval
from hasten.records.run_forecast import RunForecast, RunLength, SeenProcess, Span
from hasten.records.trial import Ratio
from hasten.tuning.run_ends import Between, Ends, Tail
from hasten.tuning.run_forecast import STEPS, UNSEEN, Measured, Slower, forecast

RATIO = Ratio(0.5, 0.45, 0.55, 4, "pairs")
PLAIN = tuple(SeenProcess(start, step) for start, step in ((4.0, 0.02), (4.2, 0.0201), (4.1, 0.0199)))
PLANNED = tuple(replace(one, step_seconds=one.step_seconds / 2, setup_seconds=1.0) for one in PLAIN)
RUN = RunLength(1000, 200, "seen")
ENDS = Between(Ends(later=((0.6, 0.6), (0.6,))), Ends(later=((0.4, 0.4), (0.4,))), every=200.0)
SEEN = Measured(
    ratio=RATIO,
    plain=PLAIN,
    planned=PLANNED,
    start_seconds=3.0,
    setup_seconds=1.0,
    length=RUN,
    between=(ENDS,),
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


def test_what_hasten_takes_before_the_script_is_no_part_of_a_plain_start() -> None:
    """Plain Python pays nothing of it, a run under the plan all."""
    own = 0.3
    seen = replace(
        SEEN,
        plain=tuple(replace(one, own_seconds=own) for one in PLAIN),
        planned=tuple(replace(one, own_seconds=own + 0.1) for one in PLANNED),
        own_start=0.4,
    )
    found, usual = told(seen), told(replace(SEEN, own_start=0.4))
    assert found.before.value == pytest.approx(usual.before.value - own)
    assert part(found, "hasten")[1].value == pytest.approx(0.4 + 0.1)
    assert part(found, "start")[0].value == pytest.approx(2.7)


def test_what_becomes_slower_after_the_steps_that_were_timed_is_added_to_a_plain_run() -> None:
    usual = told(SEEN)
    found = told(replace(SEEN, slower=(Slower(600, Span(0.01, 0.008, 0.012)),)))
    before, after = part(found, "later steps")
    assert (before.value, before.low, before.high) == pytest.approx((4.0, 3.2, 4.8))
    assert after == Span(0.0, 0.0, 0.0)
    assert found.before.value == pytest.approx(usual.before.value + 4.0)
    assert found.after == usual.after
    assert found.saved.value == pytest.approx(usual.saved.value + 4.0)
    assert (found.pays_runs or 0) <= (usual.pays_runs or 0)


def test_a_run_that_ends_before_says_nothing_of_it() -> None:
    found = told(replace(SEEN, slower=(Slower(1000, Span(0.01, 0.008, 0.012)),)))
    assert found == told(SEEN)


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


def test_a_run_whose_length_its_loops_say_is_told_whole_with_what_that_assumes() -> None:
    run = told(replace(SEEN, length=RunLength(600, 200, "loops")))
    assert (run.of, run.steps, run.epochs) == ("run", 600, 3)
    assert run.assumed[:2] == ("length by loops", "tail unseen")
    assert run.once == ()
    seen = told(replace(SEEN, length=RunLength(600, 200, "seen")))
    assert run.before.value == pytest.approx(seen.before.value)
    assert run.before.high == pytest.approx(seen.before.high + UNSEEN * seen.before.value)


def test_of_an_epoch_and_of_steps_neither_start_nor_set_up_is_told() -> None:
    epoch = told(replace(SEEN, length=RunLength(None, 200, "loader")))
    assert (epoch.of, epoch.steps, epoch.epochs, epoch.pays_runs) == ("epoch", 200, None, None)
    assert epoch.before.value == pytest.approx(200 * 0.02 + 0.6, rel=1e-4)
    assert epoch.assumed == ("length by loader",)
    left_early = RunLength(None, 200, "", by_epochs=True)
    assert told(replace(SEEN, length=left_early)).assumed == ("length by epochs",)
    by_both = told(replace(SEEN, length=RunLength(1000, 200, "loops", by_epochs=True))).assumed
    assert by_both[:2] == ("length by loops", "length by epochs")
    assert [one.name for one in epoch.once] == ["start", "set-up"]
    assert told(SEEN).once == ()
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
    found, usual = told(replace(SEEN, own_start=0.4)), told(SEEN)
    assert found.before == usual.before
    assert found.after.value == pytest.approx(usual.after.value + 0.4)
    assert found.saved.value == pytest.approx(usual.saved.value - 0.4)
    assert found.slower_start == 0.0
    assert part(found, "hasten")[1].value == 0.4
    epoch = told(replace(SEEN, own_start=0.4, length=RunLength(None, 200, "loader")))
    assert "hasten" not in [one.name for one in epoch.parts]
    assert epoch.once[0].name == "hasten"


def test_a_set_up_that_a_short_run_does_not_earn_back_is_no_gain() -> None:
    found = told(replace(SEEN, setup_seconds=30.0, length=RunLength(1000, 200, "seen")))
    assert not found.is_faster
    assert (found.pays_runs, found.pays_epochs, found.pays_steps) == (None, None, None)


def test_a_set_up_that_lasts_is_the_first_runs_alone() -> None:
    usual = told(SEEN)
    found = told(replace(SEEN, setup_seconds=5.0, lasting_seconds=4.0))
    assert part(found, "set-up")[1].value == 5.0
    assert found.saved.value == pytest.approx(usual.saved.value - 4.0)
    assert found.lasting_seconds == 4.0
    # later runs save four seconds more each
    assert found.pays_runs == math.ceil((100.0 + 4.0) / usual.saved.value)


def test_what_was_not_seen_is_named_and_makes_it_less_sure() -> None:
    unseen = told(replace(SEEN, between=(), turns_seen=False))
    assert unseen.assumed == ("ends unseen",)
    assert unseen.before.high > unseen.before.value * 1.1
    missing = told(replace(SEEN, turns_seen=False))  # evaluations in mid-epoch were seen, and no end of one
    assert missing.assumed == ("ends unseen",)
    assert missing.before.value == told(SEEN).before.value
    assert width(missing.before) > width(told(SEEN).before)
    assert width(missing.after) > width(told(SEEN).after)
    once = told(replace(SEEN, between=(replace(ENDS, plain=Ends(later=((0.6,),))),)))
    assert once.assumed == ("ends seen once",)
    assert width(once.before) > width(told(SEEN).before)


def test_where_it_is_known_that_nothing_comes_between_nothing_is_taken_for_granted() -> None:
    """One epoch alone, watched to its end."""
    alone = told(replace(SEEN, length=RunLength(200, 200, "seen"), between=(replace(ENDS, in_run=0),)))
    assert alone.assumed == ()
    assert "epoch ends" not in [one.name for one in alone.parts]


def test_ends_of_other_plans_and_those_taken_as_plain_are_named() -> None:
    others = replace(ENDS, planned=Ends(later=((0.5,), (0.5,)), others=(0.5, 0.5, 1.5)))
    assert told(replace(SEEN, between=(others,))).assumed == ("ends of other plans",)
    first = replace(ENDS, planned=Ends(first=((0.5,), (0.5,))))
    assert told(replace(SEEN, between=(first,))).assumed == ("ends as plain",)


# ---- after the last step
TAIL = Tail(Ends(later=((2.0,),)), Ends(later=((0.5,),)))


def test_what_comes_after_the_last_step_is_in_a_run() -> None:
    found, without = told(replace(SEEN, tail=TAIL)), told(SEEN)
    assert part(found, "tail")[0].value == pytest.approx(2.0)
    assert found.before.value == pytest.approx(without.before.value + 2.0)
    assert found.after.value == pytest.approx(without.after.value + 0.5)
    assert found.saved.value == pytest.approx(without.saved.value + 1.5)


def test_an_epoch_has_no_tail_and_a_longer_run_no_longer_one() -> None:
    epoch = told(replace(SEEN, tail=TAIL, length=RunLength(None, 200, "loader")))
    assert "tail" not in [one.name for one in epoch.parts]
    found, without = told(replace(SEEN, tail=TAIL)), told(SEEN)
    assert found.pays_steps is not None
    assert without.pays_steps is not None
    each = (999 * 0.02 * (1 - RATIO.value) + 5 * 0.2) / 999
    assert without.pays_steps - found.pays_steps == pytest.approx(1.5 / each, rel=0.02)


# ---- steps
def test_a_process_that_is_slow_is_slow_in_all_that_it_does() -> None:
    """Were steps and ends slow by themselves, their half-widths would be added as squares."""
    ends = Between(Ends(later=((1.0,), (3.0,))), Ends(later=((1.0,), (3.0,))), every=200.0)
    found = told(replace(SEEN, between=(ends,)))
    steps, between = (width(part(found, name)[0]) for name in ("steps", "epoch ends"))
    assert width(found.before) > 1.02 * math.hypot(steps, between, width(part(found, "start")[0]))


def test_the_steps_before_those_that_were_timed_count_as_they_were() -> None:
    """Caches fill, kernels are chosen: the first epoch of a script may take longer."""
    cold = tuple(replace(one, lead_seconds=4.0) for one in PLAIN)
    found, usual = told(replace(SEEN, plain=cold)), told(SEEN)
    assert part(found, "start")[0].value == pytest.approx(part(usual, "start")[0].value + 4.0)
    assert found.before.value == pytest.approx(usual.before.value + 4.0)
    assert found.after == usual.after
    assert found.saved.value == pytest.approx(usual.saved.value + 4.0)
    epoch = RunLength(None, 200, "loader")
    assert told(replace(SEEN, plain=cold, length=epoch)).before == told(replace(SEEN, length=epoch)).before


def test_a_run_takes_the_slow_steps_too() -> None:
    """The claim is of the median step. Where a plan leaves the slow ones as they are, a run gains less."""
    uneven = tuple(replace(one, uneven=1.5) for one in PLANNED)
    found = told(replace(SEEN, planned=uneven))
    before, after = part(found, "steps")
    assert after.value / before.value == pytest.approx(1.5 * RATIO.value)
    both = told(replace(SEEN, plain=tuple(replace(one, uneven=1.5) for one in PLAIN), planned=uneven))
    assert both.after == told(SEEN).after


def test_set_ups_differ_from_run_to_run() -> None:
    uneven = [
        replace(one, setup_seconds=seconds) for one, seconds in zip(PLANNED, (5.0, 10.0, 15.0), strict=True)
    ]
    even = [replace(one, setup_seconds=10.0) for one in PLANNED]
    spans = [
        part(told(replace(SEEN, planned=one, setup_seconds=10.0)), "set-up")[1] for one in (uneven, even)
    ]
    assert spans[0].value == spans[1].value == 10.0
    assert spans[0].high > spans[1].high > 10.0


@pytest.mark.parametrize("processes", [(), PLAIN[:1]], ids=["none", "one"])
def test_without_two_pairs_nothing_is_told(processes: tuple[SeenProcess, ...]) -> None:
    assert forecast(replace(SEEN, plain=processes), 100.0) is None


def test_where_no_start_was_told_both_take_what_was_observed() -> None:
    silent = tuple(replace(one, start_seconds=0.0) for one in PLANNED)
    before, after = part(told(replace(SEEN, planned=silent)), "start")
    assert before == after
    assert before.value == 3.0


# ---- runs that come
RUNS = 200


@pytest.mark.attack("truth")
@pytest.mark.parametrize(("apart", "within"), [(0.03, 0.1), (0.1, 0.02)])
@pytest.mark.parametrize("epochs", [3, 40])
def test_nine_of_ten_runs_of_both_arms_lie_within(apart: float, within: float, epochs: int) -> None:
    """Of processes that are slow or fast in all that they do, and whose evaluations differ, too."""
    chance, inside = random.Random(3), {"before": 0, "after": 0}

    def ends_of(speed: float, seconds: float, count: int) -> tuple[float, ...]:
        return tuple(speed * seconds * math.exp(chance.gauss(0, within)) for _ in range(count))

    for _ in range(RUNS):
        speeds = [[math.exp(chance.gauss(0, apart)) for _ in range(5)] for _ in range(2)]
        plain, planned = (
            [SeenProcess(2.0 + chance.gauss(0, 0.1), step * one) for one in side]
            for side, step in zip(speeds, (0.02, 0.01), strict=True)
        )
        logs = [math.log(b.step_seconds / a.step_seconds) for a, b in zip(plain, planned, strict=True)]
        ratio = interval(logs, "pairs")
        assert ratio is not None
        ends = [
            Ends(later=tuple(ends_of(one, seconds, 2) for one in side[:3]))
            for side, seconds in zip(speeds, (6.0, 3.0), strict=True)
        ]
        found = forecast(
            replace(
                SEEN, ratio=ratio, plain=plain, planned=planned, start_seconds=2.0, setup_seconds=0.0,
                length=RunLength(200 * epochs, 200, "seen"),
                between=(Between(ends[0], ends[1], every=200.0, in_run=epochs),),
            ),
            100.0,
        )  # fmt: skip
        assert found is not None
        for name, span, step, seconds in (
            ("before", found.before, 0.02, 6.0),
            ("after", found.after, 0.01, 3.0),
        ):
            own = math.exp(chance.gauss(0, apart))
            run = 2.0 + chance.gauss(0, 0.1) + 200 * epochs * step * own + sum(ends_of(own, seconds, epochs))
            inside[name] += span.low <= run <= span.high
    assert min(inside.values()) >= 0.9 * RUNS


# ---- whatever was measured
seconds = st.floats(1e-4, 1e3)
lengths = st.one_of(
    st.just(RunLength()),
    st.builds(lambda epoch: RunLength(None, epoch, "loader"), st.integers(1, 10**5)),
    st.builds(
        lambda steps, epoch: RunLength(steps, epoch, "seen"), st.integers(1, 10**6), st.integers(1, 10**5)
    ),
)
draws = st.lists(st.lists(st.floats(0.0, 100.0), min_size=1, max_size=4).map(tuple), max_size=4).map(tuple)
some = st.lists(st.lists(st.floats(0.0, 100.0), min_size=1, max_size=4).map(tuple), min_size=1, max_size=4)
endings = st.builds(Ends, draws, some.map(tuple))
kinds = st.builds(
    Between, endings, st.builds(Ends, draws, draws), st.floats(1.0, 1e5), st.none() | st.integers(0, 1000)
)
processes = st.builds(
    SeenProcess, seconds, seconds, st.floats(0.0, 10.0), st.floats(-1.0, 100.0), st.floats(1.0, 3.0)
)


@st.composite
def ratios(draw: st.DrawFn) -> Ratio:
    value = draw(st.floats(0.05, 2.0))
    low, high = draw(st.floats(0.3, 1.0)), draw(st.floats(1.0, 3.0))
    return Ratio(value, value * low, value * high, 4, "pairs")


@st.composite
def measured(draw: st.DrawFn) -> Measured:
    pairs = draw(st.lists(st.tuples(processes, processes), min_size=2, max_size=8))
    return Measured(
        ratio=draw(ratios()),
        plain=tuple(a for a, _ in pairs),
        planned=tuple(b for _, b in pairs),
        start_seconds=draw(seconds),
        setup_seconds=draw(st.floats(0.0, 1e3)),
        length=draw(lengths),
        between=draw(st.lists(kinds, max_size=3)),
        turns_seen=draw(st.booleans()),
        tail=draw(
            st.none() | st.builds(Tail, endings, st.builds(Ends, draws, draws), st.floats(-10.0, 10.0))
        ),
        own_start=draw(st.floats(0.0, 10.0)),
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
    known, unseen = (forecast(replace(seen, turns_seen=told), 100.0) for told in (True, False))
    assert (known is None) is (unseen is None)
    if known is not None and unseen is not None:
        for wider, narrower in ((unseen.after, known.after), (unseen.before, known.before)):
            assert wider.high >= narrower.high + 0.09 * narrower.value or narrower.high > 1e9 * narrower.value
            assert wider.low == narrower.low
        assert "ends unseen" in unseen.assumed
