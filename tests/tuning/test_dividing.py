"""What a budget that nobody named grows to."""

from __future__ import annotations

from hasten.tuning.budget import Budget
from hasten.tuning.dividing import _enough
from tests.bench.made_up import observation, watched_run

from .test_budget import Known


def enough(pair_steps: int, **seconds: float) -> float:
    watched = observation(run=watched_run(seconds, epochs=1))
    budget = Budget(200.0)
    budget.divide(watched, pair_steps, Known())
    return _enough(budget, watched)


def test_more_where_evaluation_takes_a_good_part() -> None:
    """It is compared by long stretches of the run."""
    little = enough(1300, steps=8.0, evaluation=2.0)
    assert 200 < little < enough(1300, steps=5.0, evaluation=5.0) <= little + 90


def test_none_where_the_search_has_enough() -> None:
    assert enough(10, steps=8.0, evaluation=2.0) == 200
