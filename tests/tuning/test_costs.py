"""What the parts of a tune take, and what is set aside for them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hasten.bench.comparing.decisions import CLAIM_LEAST_PROCESSES, Effort
from hasten.bench.guard.checked_steps import LEAST_STEPS
from hasten.bench.guard.guard import STEPS
from hasten.records.observation import Observation
from hasten.tuning.costs import Costs, budget_for, budget_for_search
from tests.bench.made_up import observation, root, step


def small(**changes: Any) -> Observation:
    """Of a model that is too small to matter by itself."""
    return observation(roots=(root(parameters=0),), **changes)


def estimate(
    step_seconds: float = 0.01, start_seconds: float = 2.0, pair_steps: int = 100, budget: float = 150.0
) -> Costs:
    watched = small(steps=(step(step_seconds),) * 5, start_seconds=start_seconds)
    return Costs.estimate(watched, pair_steps, budget)


def test_a_pair_is_two_starts_and_the_steps_of_both() -> None:
    assert estimate(start_seconds=0.0).pair == pytest.approx(2 * 100 * 0.01)
    assert estimate(step_seconds=1e-9).pair == pytest.approx(2 * 2.0)


def test_the_guard_is_the_starts_and_the_steps_of_three() -> None:
    assert estimate(start_seconds=0.0).guard == pytest.approx(3 * STEPS * 0.01)
    assert estimate(step_seconds=1e-9).guard == pytest.approx(3 * 2.0)


def test_what_falls_into_first_steps_counts_as_a_start() -> None:
    later = small(steps=(step(0.01),) * 5, start_seconds=2.0)
    soon = small(steps=(step(0.01),) * 5, start_seconds=0.5, settling_seconds=1.5)
    assert Costs.estimate(soon, 100, 150.0) == Costs.estimate(later, 100, 150.0)


@pytest.mark.parametrize(("device", "least"), [("cpu", STEPS * 0.1 + 3.0), ("cuda", 3.0)])
def test_a_large_model_takes_the_guard_longer(device: str, least: float) -> None:
    """Its noise is drawn by the processor, and its gradients are compared there."""
    large = root(parameters=30_000_000, devices=(device,))
    watched = observation(steps=(step(0.01),) * 5, start_seconds=2.0, roots=(large,))
    costs = Costs.estimate(watched, 100, 1000.0)
    assert costs.guard_steps == STEPS
    assert costs.guard - estimate(budget=1000.0).guard >= least


def test_of_fewer_steps_it_takes_less_but_for_its_start() -> None:
    costs = estimate()
    assert costs.guard_of(STEPS) == pytest.approx(costs.guard)
    assert costs.guard_of(STEPS / 2) == pytest.approx(costs.guard - 3 * STEPS / 2 * 0.01)
    assert costs.guard_of(0) == pytest.approx(estimate(step_seconds=1e-9).guard)


@pytest.mark.parametrize(("step_seconds", "steps"), [(0.01, STEPS), (0.25, 40), (10.0, LEAST_STEPS)])
def test_the_guard_takes_fewer_steps_where_they_are_slow_but_never_too_few(
    step_seconds: float, steps: int
) -> None:
    assert estimate(step_seconds, budget=150.0).guard_steps == steps


def test_the_median_step_counts_and_not_the_mean() -> None:
    steps = (*(step(0.01) for _ in range(9)), step(100.0))
    assert Costs.estimate(small(steps=steps), 100, 150.0) == estimate()


def test_what_is_set_aside_covers_guard_and_a_claim() -> None:
    costs = estimate()
    assert costs.reserve >= costs.guard + CLAIM_LEAST_PROCESSES * costs.pair
    assert costs.least >= costs.guard + CLAIM_LEAST_PROCESSES * costs.pair


@given(
    step_seconds=st.floats(1e-4, 100.0),
    start=st.floats(0.1, 100.0),
    pair_steps=st.integers(50, 10000),
    budget=st.floats(1.0, 1e5),
)
def test_whatever_the_script_the_claim_has_its_pairs(
    step_seconds: float, start: float, pair_steps: int, budget: float
) -> None:
    costs = estimate(step_seconds, start, pair_steps, budget)
    assert LEAST_STEPS <= costs.guard_steps <= STEPS
    assert costs.effort.pairs >= CLAIM_LEAST_PROCESSES


@pytest.mark.parametrize(
    ("budget", "pairs", "looks"),
    [(60.0, 5, 0), (30.0, 4, 0), (100.0, 8, 0), (150.0, 10, 4), (1000.0, 10, 20)],
)
def test_a_third_of_a_large_budget_is_set_aside_for_pairs(budget: float, pairs: int, looks: int) -> None:
    """A pair takes four seconds here."""
    costs = estimate(start_seconds=0.0, pair_steps=200, budget=budget)
    assert costs.pair == pytest.approx(4.0)
    assert costs.reserve == pytest.approx(costs.guard + pairs * 4.0 + looks * 2.0)


@pytest.mark.parametrize(
    ("pairs", "spent", "expected"),
    [
        (10, 150.0, 190.0),  # 4 pairs of 5 s more
        (10, 60.0, 170.0),  # 50 s are a third of 150
        (7, 60.0, 120.0),
    ],
)
def test_the_budget_for_more_pairs(pairs: int, spent: float, expected: float) -> None:
    assert budget_for(Effort(pairs), Effort(6), 5.0, spent) == expected


@given(
    step_seconds=st.floats(1e-3, 0.1),
    start=st.floats(0.5, 20.0),
    spent=st.floats(10.0, 1000.0),
    effort=st.builds(Effort, st.integers(4, 10)) | st.builds(Effort, st.just(10), st.integers(1, 20)),
)
def test_under_that_budget_this_effort_is_set_aside(
    step_seconds: float, start: float, spent: float, effort: Effort
) -> None:
    pair = estimate(step_seconds, start).pair
    found = estimate(step_seconds, start, budget=budget_for(effort, Effort(4), pair, spent)).effort
    assert found.pairs >= effort.pairs
    assert found.looks >= effort.looks


@given(
    step_seconds=st.floats(1e-3, 1.0),
    seconds=st.floats(1.0, 500.0),
    used=st.floats(1.0, 50.0),
    at_least=st.floats(10.0, 300.0),
)
def test_a_budget_for_a_longer_search_leaves_it_the_time_and_hardly_more(
    step_seconds: float, seconds: float, used: float, at_least: float
) -> None:
    watched = observation(steps=(step(step_seconds),) * 5, start_seconds=2.0)
    budget = budget_for_search(watched, 100, used, seconds, at_least)

    def left(budget: float) -> float:
        return budget - used - Costs.estimate(watched, 100, budget).reserve

    assert left(budget) >= seconds
    assert budget >= at_least
    assert budget % 10 == 0
    if budget - 10 >= at_least and budget - 10 >= used + seconds:
        assert left(budget - 10) < seconds
