"""Which of the plans that were confirmed is claimed."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from hasten.bench.comparing.decisions import is_gain, margin
from hasten.records.comparison import SingleSteps, StepDeparture
from hasten.records.plan import Plan
from hasten.records.trial import Trial
from hasten.records.verdict import GuardVerdict
from hasten.report.reasons import reason_words
from hasten.tuning.confirming import left_out, settled, without_evaluations
from tests.bench.made_up import trial
from tests.bench.paper_epochs import QUICK, known

STEPS = Plan({"fused_optimizer": {}, "malloc": {}})
WHOLE = Plan({**STEPS.techniques, **QUICK.techniques})
CLEAR, NOISE, SLOWER = [0.8, 0.81, 0.79, 0.8], [0.9, 1.1, 0.95, 1.02], [1.2, 1.21, 1.19, 1.2]
NEARLY = [
    0.878,
    0.908,
    0.898,
    0.918,
]  # a gain where it is the only claim at stake, and not where it is one of two


@pytest.fixture(autouse=True)
def techniques() -> Iterator[None]:
    with known():
        yield


def of_steps(ratios: Sequence[float], **more: Any) -> Trial:
    return trial(ratios, STEPS, claims=2, **more)


def of_all(ratios: Sequence[float], **more: Any) -> Trial:
    return trial(ratios, WHOLE, claims=2, **more).over_stretches(("evaluation",), ())


def test_what_is_a_gain_by_itself_and_not_as_one_of_two() -> None:
    logs = of_steps(NEARLY).log_ratios
    assert is_gain(logs)
    assert not is_gain(logs, claims=2)


@pytest.mark.attack("truth")
@pytest.mark.parametrize(
    ("steps", "whole", "plan"),
    [
        (CLEAR, CLEAR, WHOLE),
        (CLEAR, NOISE, STEPS),
        (CLEAR, SLOWER, STEPS),
        (NOISE, CLEAR, WHOLE),
        (CLEAR, NEARLY, WHOLE),  # the steps' is sure, so that the whole has all of the error
    ],
)
def test_the_whole_is_claimed_where_it_is_confirmed_else_its_steps(
    steps: Sequence[float], whole: Sequence[float], plan: Plan
) -> None:
    found = settled(WHOLE, [of_steps(steps), of_all(whole)])
    assert found is not None
    assert found.b == plan
    assert is_gain(found.log_ratios, found.looks, found.claims)


@pytest.mark.attack("truth")
@pytest.mark.parametrize(
    ("steps", "whole"), [(NOISE, NOISE), (NEARLY, NOISE), (NOISE, NEARLY), (NEARLY, NEARLY)]
)
def test_neither_is_claimed_by_more_than_its_share_of_the_error(
    steps: Sequence[float], whole: Sequence[float]
) -> None:
    found = settled(WHOLE, [of_steps(steps), of_all(whole)])
    assert found is not None
    assert found.b == WHOLE
    assert not is_gain(found.log_ratios, found.looks, found.claims)


@pytest.mark.attack("truth")
def test_tunes_without_any_gain_claim_one_in_a_hundred_times() -> None:
    """By the bound alone: what is taken off for slow processes makes it less."""
    draw = random.Random(7)
    threshold, tunes = -math.log(1.01), 4000  # the largest effect that must not be claimed

    def logs(pairs: int) -> list[float]:
        return [draw.gauss(threshold, 0.03) for _ in range(pairs)]

    false = 0
    for _ in range(tunes):
        steps, whole = logs(10), logs(4)
        sure = margin(steps, 2) > 0
        false += sure or margin(whole, 1 if sure else 2) > 0
    assert 0.005 < false / tunes < 0.0147, "1%, by three standard errors"


def test_a_plan_that_fails_over_whole_stretches_leaves_its_steps() -> None:
    trials = [of_steps(CLEAR), of_all(CLEAR, failure="evaluation came by less often")]
    found = settled(WHOLE, trials)
    assert found is not None
    assert found.b == STEPS
    (row,) = left_out(WHOLE, trials, found.b)
    assert (row.technique, row.kept, row.ratio) == ("quick_eval", False, None)
    assert reason_words(row.reason) == (
        "left out: the plan with it failed over whole stretches of the run, evaluation included: evaluation "
        "came by less often"
    )


@pytest.mark.parametrize(
    ("whole", "words"),
    [
        ([of_all(NOISE)], "the plan with it was not confirmed"),
        ([], "the budget ended before the plan with it was confirmed"),
        ([of_all(CLEAR[:3], cut_short=True)], "the budget ended before the plan with it was confirmed"),
    ],
)
def test_what_is_left_out_is_named_with_the_reason(whole: list[Trial], words: str) -> None:
    trials = [of_steps(CLEAR), *whole]
    found = settled(WHOLE, trials)
    assert found is not None
    (row,) = left_out(WHOLE, trials, found.b)
    assert reason_words(row.reason) == (
        f"left out: {words} over whole stretches of the run, evaluation included"
    )


def test_one_confirmation_is_the_one() -> None:
    only = trial(NOISE, WHOLE)
    assert settled(WHOLE, [only]) == only
    assert left_out(WHOLE, [only], WHOLE) == []
    assert settled(WHOLE, []) is None


def test_a_part_that_is_not_confirmed_says_nothing_of_the_whole() -> None:
    assert settled(WHOLE, [trial(NOISE, STEPS)]) is None


def test_what_was_compared_of_evaluations_goes_with_what_lowers_them() -> None:
    same = StepDeparture(1.0, 0.01, True, 3, 0.0, 0.01)
    compared = {"gradient": same, "evaluation": same, "printed": same}
    verdict = GuardVerdict("held", numerics=SingleSteps(True, compared=compared))
    lowered = Plan({"bf16": {}, "evaluation_bf16": {}})
    assert without_evaluations(verdict, lowered) == verdict
    left = without_evaluations(verdict, lowered.without("evaluation_bf16"))
    assert left is not None
    assert left.numerics.compared == {"gradient": same}
    assert without_evaluations(None, lowered) is None
