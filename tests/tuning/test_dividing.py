"""What a budget that nobody named grows to."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from hasten.records.plan import BASELINE
from hasten.report.progress import Silent
from hasten.scripts.workspace import find_script
from hasten.tuning.budget import Budget
from hasten.tuning.dividing import _enough, leave_search
from hasten.tuning.request import TuneRequest
from hasten.tuning.search_time import SearchTime
from tests.bench.made_up import observation, watched_run

from .test_budget import PLAN, Known, budget_after


class Told(Silent):
    def __init__(self) -> None:
        self.budgets: list[float] = []

    def grown(self, budget: float) -> None:
        self.budgets.append(budget)


@pytest.fixture
def request_of(tmp_path: Path) -> TuneRequest:
    (tmp_path / "train.py").touch()
    script = find_script(str(tmp_path / "train.py"), [])
    return TuneRequest(script, {}, 200.0, "close", 0, False, budget_most=600.0)


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


@pytest.mark.parametrize(
    ("setup", "most", "grows"), [(8.0, 600.0, True), (0.1, 600.0, False), (8.0, 0.0, False)]
)
def test_what_is_slow_to_set_up_takes_no_time_from_the_search(
    setup: float, most: float, grows: bool, request_of: TuneRequest
) -> None:
    """A textbook's network found a compiled model 1.07 times faster, and nothing else was tried."""
    budget, told, found = budget_after(20.0, Known(10.0, {"compile": setup}), 200.0), Told(), [BASELINE]
    asked = replace(request_of, budget_most=most)
    time = SearchTime(
        budget, lambda: found[0], lambda plan, had: leave_search(budget, asked, plan, had, told)
    )
    before = time.left
    found[0] = PLAN
    left = time.left
    assert (left > 0.95 * before) is (setup < 1 or grows)
    assert time.left == left
    assert told.budgets == ([budget.seconds] if grows else [])
    assert 200 <= budget.seconds <= max(200.0, most)


def test_a_search_that_had_its_time_ends_when_something_slow_is_found(request_of: TuneRequest) -> None:
    budget, told = budget_after(130.0, Known(10.0, {"compile": 8.0}), 200.0), Told()
    leave_search(budget, request_of, PLAN, 110.0, told)
    assert (budget.seconds, told.budgets) == (200.0, [])
