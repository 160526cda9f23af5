"""What a pair over whole stretches is foreseen to take."""

from __future__ import annotations

import pytest

from hasten.bench.comparing.pair_costs import PairCosts
from hasten.records.plan import BASELINE, Plan

QUICK = Plan({"quick_eval": {}})
BOTH = Plan({"bf16": {}, "quick_eval": {}})
OTHER = Plan({"quick_eval": {"count": 2}})


def test_before_the_first_it_is_two_starts_and_plain_training() -> None:
    assert PairCosts(5.0).foreseen({BASELINE: 10.0, QUICK: 20.0}) == pytest.approx(2 * 5 + 30)


def costs_after(*pairs: tuple[float, float, float]) -> PairCosts:
    """Each: seconds of the pair, and of these, what the baseline trained and the plan, for 10 s of plain
    training.
    """
    made = PairCosts(5.0)
    for seconds, plain, quick in pairs:
        made.took(seconds, {BASELINE: plain, QUICK: quick}, {BASELINE: 10.0, QUICK: 10.0})
    return made


def test_starts_and_each_plans_training_are_as_they_were() -> None:
    costs = costs_after((27.0, 20.0, 4.0))
    assert costs.foreseen({BASELINE: 10.0, QUICK: 10.0}) == pytest.approx(27.0)
    assert costs.foreseen({BASELINE: 5.0, QUICK: 5.0}) == pytest.approx(3.0 + 12.0)


@pytest.mark.parametrize(("plan", "seconds"), [(BOTH, 4.0), (OTHER, 20.0), (Plan({"bf16": {}}), 20.0)])
def test_a_plan_that_was_not_timed_is_as_the_largest_part_that_was(plan: Plan, seconds: float) -> None:
    costs = costs_after((27.0, 20.0, 4.0))
    assert costs.foreseen({BASELINE: 10.0, plan: 10.0}) == pytest.approx(3.0 + 20.0 + seconds)


def test_one_slow_pair_of_three_does_not_count() -> None:
    costs = costs_after((27.0, 20.0, 4.0), (227.0, 120.0, 104.0), (27.0, 20.0, 4.0))
    assert costs.foreseen({BASELINE: 10.0, QUICK: 10.0}) == pytest.approx(27.0)


def test_before_a_plan_was_timed_its_steps_are_as_fast_as_they_are_known_to_be() -> None:
    costs, found = PairCosts(5.0), Plan({"malloc": {}, "bf16": {}})
    costs.step_took(BASELINE, Plan({"bf16": {}}), 0.5)
    costs.step_took(Plan({"bf16": {}}), found, 0.8)
    plan = found.adding("quick_eval", {})
    assert costs.foreseen({BASELINE: 10.0, plan: 10.0}, in_steps=8.0) == pytest.approx(10 + 10 + 2 + 0.4 * 8)
    costs.took(27.0, {found: 2.0}, {found: 10.0})
    assert costs.foreseen({plan: 10.0}, in_steps=8.0) == pytest.approx(25.0 + 2.0)


def test_a_slower_step_is_not_foreseen_to_last() -> None:
    """A plan that is slower is not kept, so nothing is added to it."""
    costs = PairCosts(5.0)
    costs.step_took(BASELINE, QUICK, 3.0)
    assert costs.foreseen({QUICK: 10.0}, in_steps=8.0) == pytest.approx(10.0 + 10)
