"""From measurements to a result."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from hasten.bench.comparing.epoch_ends import EpochEnds
from hasten.bench.comparing.statistics import interval
from hasten.bench.comparing.steps import Rhythm
from hasten.records.cause import Cause
from hasten.records.caution import Caution
from hasten.records.observation import Processors
from hasten.records.plan import BASELINE, Plan
from hasten.records.reasons import Reason, WhyNot
from hasten.records.result import Refused, Tried, TuneResult
from hasten.records.trial import Trial
from hasten.records.verdict import GuardVerdict
from hasten.report.conclusion import conclusion_words, looks_words
from hasten.tuning.conclusion import Found, conclude
from tests.bench.made_up import facts, step, trial, verdict

PLAN = Plan({"dataset_in_ram": {}, "threads": {"count": 2}})
CLEAR = [0.5, 0.51, 0.49, 0.5]
NOISE = [0.9, 1.1, 0.95, 1.02]
NOT_HERE = Refused("bf16", (WhyNot("said", "no such instructions"),))
ROW = Tried("bf16", {}, None, BASELINE, False, Reason("no gain"), "live")


def concluded(
    confirmation: Trial | None = None,
    judged: GuardVerdict | None = None,
    tried: tuple[Tried, ...] = (ROW,),
    **more: Any,
) -> TuneResult:
    found = Found(facts(), 100.0, "overlay", tried=tried, verdict=judged, trial=confirmation)
    return conclude(replace(found, **more))


def row_with(log_ratios: list[float]) -> Tried:
    return replace(ROW, ratio=interval(log_ratios, "ABBA blocks"))


def test_what_others_carry_into_the_plan_is_not_told_as_not_applying() -> None:
    plan = Plan({"dataset_in_ram": {}, "malloc": {}})
    alone = Refused("dataset_in_ram", (WhyNot("said", "it is read by 2 worker processes"),))
    late = Refused("malloc", (WhyNot("no time in combination"),))
    found = Found(facts(), 100.0, verdict=verdict(), trial=trial(CLEAR, plan), refused=(alone, late))
    assert [row.technique for row in conclude(found).refused] == ["malloc"]
    nothing = replace(found, trial=None)
    assert [row.technique for row in conclude(nothing).refused] == ["dataset_in_ram", "malloc"]


def test_a_confirmed_gain_is_claimed_with_its_interval() -> None:
    result = concluded(trial(CLEAR, PLAN), verdict())
    assert result.outcome == "gain"
    assert result.plan == PLAN
    assert result.speedup is not None
    assert result.ratio is not None
    assert result.speedup.value == pytest.approx(2.0, rel=0.01)
    assert result.speedup.low == pytest.approx(1 / result.ratio.high)
    assert result.speedup.count == 4
    assert result.measured == result.ratio


def test_what_a_plain_step_takes_is_as_it_was_confirmed() -> None:
    """The first process was watched beside other programs: 134 ms, where all later ones took 13."""
    of_steps = trial(CLEAR, PLAN, step_seconds_a=0.0013)
    of_epochs = of_steps.over_stretches(("evaluation",), ())
    found = [concluded(one, verdict()).baseline_step_seconds for one in (of_steps, of_epochs, None)]
    assert found == [0.0013, 0.01, 0.01]


@pytest.mark.parametrize(
    ("waiting", "count", "warned"), [(1.5, 2, True), (0.1, 2, False), (1.5, 8, False), (1.5, None, False)]
)
def test_fewer_threads_beside_other_programs_are_right_for_the_moment(
    waiting: float, count: int | None, warned: bool
) -> None:
    seen = facts(threads=4, processors=Processors(2.0, 0.0, waiting=waiting, others=waiting))
    plan = Plan({"threads": {"count": count}} if count is not None else {"malloc": {}})
    found = Found(seen, 100.0, verdict=verdict(), trial=trial(CLEAR, plan))
    assert (Caution("fewer threads") in conclude(found).warnings) is warned
    assert conclude(replace(found, trial=None)).warnings == ()


@pytest.mark.parametrize("lengths", [(40,), (40, 90)])
def test_a_length_that_varies_is_none(lengths: tuple[int, ...]) -> None:
    ends = EpochEnds(Rhythm(0, 0, 1, 0.01))
    for length in lengths:
        ends.script_ended(length)
    result = concluded(trial(CLEAR, PLAN), verdict(), ends=ends)
    assert result.script_steps == (40 if len(lengths) == 1 else None)


def test_a_gain_over_whole_stretches_is_claimed_as_such_next_to_that_of_steps() -> None:
    steps = tuple(math.log(ratio) for ratio in (0.99, 1.01, 0.98, 1.0))
    found = trial(CLEAR, PLAN).over_stretches(("evaluation",), steps)
    result = concluded(found, verdict())
    assert (result.outcome, result.parts) == ("gain", ("evaluation",))
    assert result.speedup is not None
    assert result.speedup.value == pytest.approx(2.0, rel=0.01)
    assert result.steps_ratio == interval(steps, "pairs")
    assert result.shortened == 1.0
    assert concluded(replace(found, shortened=0.02), verdict()).shortened == 0.02


def test_a_gain_over_whole_stretches_within_the_noise_is_none() -> None:
    result = concluded(trial(NOISE, PLAN).over_stretches(("evaluation",), ()), verdict())
    assert (result.outcome, result.parts, result.steps_ratio) == ("no-gain", (), None)


def test_what_is_within_the_noise_is_no_claim_but_is_told() -> None:
    result = concluded(trial(NOISE, PLAN), verdict())
    assert result.outcome == "no-gain"
    assert conclusion_words(result).startswith(
        "what looked faster was not confirmed in fresh processes: it is within the noise. "
        "Cannot tell under 37%: 4 pairs that"
    )
    assert result.plan == BASELINE
    assert result.speedup is None
    assert result.ratio is None
    assert result.measured is not None


def reason_of(ratios: list[float], looks: Sequence[float] = (), **more: Any) -> str:
    """Of a tune whose confirmation came out with these ratios, five seconds a pair."""
    seconds = 5.0 * (len(ratios) + len(looks) / 2)
    found = trial(ratios, PLAN, seconds=seconds, looks=tuple(looks), **more)
    return conclusion_words(concluded(found, verdict()))


def test_what_would_have_been_found_is_told_with_a_budget_that_finds_less() -> None:
    assert reason_of([0.97, 1.0, 1.03, 0.97, 1.0, 1.03]).endswith(
        "6 pairs that vary as much as these find a gain of 11% four times in five, "
        "smaller ones less often; "
        "--budget 330 would find 6%"
    )


def test_a_search_that_found_nothing_tells_what_it_could_not_and_a_budget() -> None:
    tried = (row_with([-0.01, 0.0, 0.01]), row_with([-0.06, 0.0, 0.06, 0.0, 0.0, 0.0]))
    result = concluded(tried=tried, longer=lambda times: 100 * times)
    assert conclusion_words(result).startswith(
        "nothing tried is faster. Cannot tell under 7%: comparisons that"
    )
    assert " find a gain of 7% four times in five, " in conclusion_words(result)
    assert conclusion_words(result).endswith("; a search under --budget 400 would find 4%")
    assert "--budget" not in conclusion_words(concluded(tried=tried))


def test_pairs_that_agree_find_the_least_gain_beyond_what_may_be_unseen() -> None:
    assert "find a gain of 6% four times in five" in reason_of([0.995] * 6)


def test_no_budget_is_named_where_none_finds_less() -> None:
    reason = reason_of([0.97, 1.0, 1.03, 0.97, 1.0, 1.03, 0.97, 1.0, 1.03, 1.0], looks_most=20)
    assert reason.endswith(
        "10 pairs that vary as much as these find a gain of 6% four times in five, smaller ones less often"
    )


@pytest.mark.attack("truth")
@pytest.mark.parametrize(
    ("looks", "words"),
    [
        (
            (),
            "but a process may be slow throughout (by 57% if its memory layout is bad), and 6 under the "
            "plan are too few to rule that out for so small a gain; --budget 170 would start enough of them",
        ),
        (
            (0.0, 0.0),
            "but a process may be slow throughout (by 57% if its memory layout is bad), and 8 under the "
            "plan are too few to rule that out for so small a gain; --budget 170 would start enough of them",
        ),
        (
            (0.0, 0.45, 0.0, 0.5),
            "but 2 of 10 processes under the plan were slow, and others may be; --budget 330 would start "
            "enough of them",
        ),
    ],
)
def test_what_is_not_claimed_for_what_may_be_unseen_says_so(looks: Sequence[float], words: str) -> None:
    found = "no certain one: 6 pairs of fresh processes measured 1.05 times faster"
    assert reason_of([0.95] * 6, looks) == f"{found}, {words}"


def test_a_gain_too_small_for_any_budget_names_none() -> None:
    assert reason_of([0.98] * 6).endswith(
        "so small a gain; no --budget is long enough to start enough of them"
    )


@pytest.mark.attack("truth")
@pytest.mark.parametrize(
    ("looks", "words", "speedup"),
    [
        ([], "", 2.0),
        ([0.0, 0.0], "2 further processes under the plan, none of them slow", 2.0),
        ([0.4, 0.0], "2 further processes under the plan, 1 of them slow", 2.0 * math.exp(-0.4 / 8)),
        ([0.4, 0.4], "2 further processes under the plan, 2 of them slow", 2.0 * math.exp(-0.8 / 8)),
    ],
)
def test_a_claim_says_what_processes_alone_have_shown(looks: list[float], words: str, speedup: float) -> None:
    """Slow ones count in what is claimed, not only in whether it is."""
    result = concluded(trial([0.5] * 6, PLAN, looks=tuple(looks)), verdict())
    assert result.outcome == "gain"
    assert (looks_words(result.looks) if result.looks is not None else "") == words
    assert result.speedup is not None
    assert result.speedup.value == pytest.approx(speedup)
    assert result.speedup.low <= result.speedup.value <= result.speedup.high == pytest.approx(2.0)


def test_what_is_slower_is_not_called_noise() -> None:
    assert reason_of([1.2, 1.21, 1.19, 1.2]) == "what looked faster proved slower in fresh processes"


def test_three_pairs_are_no_claim_however_clear() -> None:
    assert concluded(trial(CLEAR[:3], PLAN), verdict()).outcome == "no-gain"


def test_a_failed_confirmation_is_no_claim() -> None:
    result = concluded(trial(CLEAR, PLAN, failure="out of memory"), verdict())
    assert result.outcome == "no-gain"
    assert result.plan == BASELINE
    assert conclusion_words(result) == "the plan failed in fresh processes: out of memory"


@pytest.mark.parametrize(
    ("judged", "tried", "reason"),
    [
        (verdict(passed=False), (ROW,), "what was faster did not keep accuracy"),
        (None, (ROW,), "nothing tried is faster"),
        (None, (), "no technique applies here"),
    ],
)
def test_without_a_confirmation_the_reason_says_why(
    judged: GuardVerdict | None, tried: tuple[Tried, ...], reason: str
) -> None:
    result = concluded(None, judged, tried)
    assert (result.outcome, conclusion_words(result)) == ("no-gain", reason)
    assert result.measured is None


def test_where_time_ran_out_before_anything_was_tried_that_is_the_reason() -> None:
    result = concluded(None, None, (), untried={"bf16": 300.0})
    assert conclusion_words(result) == "the budget ended before anything could be tried"


def test_what_was_not_tried_in_time_is_listed_among_the_refused() -> None:
    result = concluded(untried={"threads": None}, refused=[NOT_HERE])
    assert result.refused == (
        NOT_HERE,
        Refused("threads", (WhyNot("no time"),)),
    )


def test_the_baseline_is_told_as_it_was_observed() -> None:
    result = concluded()
    assert result.baseline_step_seconds == pytest.approx(0.01)
    assert result.baseline_samples_per_second == pytest.approx(800)
    unseen = facts(batch_size=None, steps=(step(samples=None),) * 30)
    unknown = conclude(Found(unseen, 100.0))
    assert unknown.baseline_samples_per_second is None


@pytest.mark.parametrize(
    ("setup_seconds", "b", "steps"),
    [(1.0, 0.008, 500), (0.0, 0.008, None), (1.0, 0.01, None), (1.0, None, None)],
)
def test_the_set_up_has_paid_after_so_many_steps(
    setup_seconds: float, b: float | None, steps: int | None
) -> None:
    found = trial(CLEAR, PLAN, step_seconds_a=0.01, step_seconds_b=b, setup_seconds=setup_seconds)
    result = concluded(found, verdict())
    assert result.breakeven_steps == (pytest.approx(steps, abs=1) if steps else None)
    assert result.setup_seconds == setup_seconds


def test_a_gain_that_is_not_claimed_has_no_set_up_to_pay() -> None:
    result = concluded(trial(NOISE, PLAN, setup_seconds=1.0), verdict())
    assert result.breakeven_steps is None
    assert result.setup_seconds == 0.0


def test_everything_that_was_found_out_is_handed_on() -> None:
    cause = Cause("input", 0.5, "waiting", ("dataset_in_ram",))
    judged = verdict()
    result = concluded(trial(CLEAR, PLAN), judged, causes=[cause])
    assert result.causes == (cause,)
    assert result.guard == judged
    assert result.tried == (ROW,)
    assert result.protection == "overlay"
    assert "Pencil and Paper" in result.machine
    assert result.versions["torch"] == "2.13.0"
