"""What a budget that nobody named grows to."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from hasten.bench.comparing.steps import Rhythm
from hasten.bench.script_bench import ScriptBench
from hasten.errors import Refusal
from hasten.records.plan import BASELINE, Plan
from hasten.records.whole_run import WatchedRun
from hasten.report.progress import Silent
from hasten.scripts.workspace import find_script
from hasten.tuning.budget import Budget
from hasten.tuning.dividing import Allowance, _enough
from hasten.tuning.request import TuneRequest
from hasten.tuning.search_time import SearchTime
from tests.bench.made_up import observation, watched_run

from .test_budget import PLAN, Known, budget_after


class Told(Silent):
    def __init__(self) -> None:
        self.budgets: list[float] = []
        self.nothing_found: list[bool] = []

    def grown(self, budget: float, nothing_found: bool = False) -> None:
        self.budgets.append(budget)
        self.nothing_found.append(nothing_found)

    def budget_of_run(self, budget: float, share: float, run: float) -> None:
        self.budgets.append(budget)


RHYTHM = Rhythm(0, 0, 1, 0.01)


def a_bench(pair_steps: int, comparison: float = 5.0) -> ScriptBench:
    """That knows what costs are, and nothing else. ``comparison``: seconds of a live one."""
    bench: Any = Known()
    bench.pairs, bench.begins = SimpleNamespace(steps_needed=pair_steps), None
    bench.foreseen = lambda a, b: comparison
    return bench  # type: ignore[no-any-return]


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
    allowance = Allowance(budget, replace(request_of, budget_most=most), told)
    time = SearchTime(budget, lambda: found[0], allowance)
    before = time.left
    found[0] = PLAN
    left = time.left
    assert (left > 0.95 * before) is (setup < 1 or grows)
    assert time.left == left
    assert told.budgets == ([budget.seconds] if grows else [])
    assert not any(told.nothing_found)
    assert 200 <= budget.seconds <= max(200.0, most)


@pytest.mark.parametrize(
    ("before", "most", "then"),
    [(200.0, 600.0, 80.0), (None, 600.0, 200.0), (200.0, 0.0, 200.0), (900.0, 600.0, 200.0)],
)
def test_half_of_what_an_earlier_tune_took_is_enough_where_nobody_names_a_budget(
    before: float | None, most: float, then: float, request_of: TuneRequest
) -> None:
    budget, told = Budget(200.0), Told()
    allowance = Allowance(budget, replace(request_of, budget_most=most), told)
    allowance.divide(observation(), RHYTHM, a_bench(10), before)
    assert (budget.seconds, told.budgets) == (then, [])
    assert allowance.search_on() is (before is None)


def test_it_is_longer_where_half_is_too_short_for_an_honest_answer(request_of: TuneRequest) -> None:
    budget, told = Budget(200.0), Told()
    Allowance(budget, request_of, told).divide(observation(), RHYTHM, a_bench(10), 20.0)
    assert budget.least < budget.seconds < 100
    assert told.budgets == [budget.seconds]


@pytest.mark.parametrize(
    ("start", "comparison", "most", "before", "search"),
    [
        (2.0, 5.0, 600.0, None, None),
        (2.0, 20.0, 600.0, None, 142.0),
        (2.0, 35.0, 600.0, None, 175.0),
        (2.0, 90.0, 600.0, None, 200.0),
        (6.0, 5.0, 600.0, None, 147.0),
        (9.0, 5.0, 600.0, None, 150.0),
        (6.0, 90.0, 0.0, None, None),  # somebody named the budget
        (6.0, 90.0, 600.0, 400.0, None),  # its comparisons are known
    ],
)
def test_slow_steps_and_a_slow_start_get_more_time(
    start: float,
    comparison: float,
    most: float,
    before: float | None,
    search: float | None,
    request_of: TuneRequest,
) -> None:
    """Two of thirteen techniques were tried on a script whose steps take 170 ms, and on a slow processor six
    of sixteen on one whose start takes 4.8 s. ``search``: seconds for it, if it gets more than 110.
    """
    budget, bench, told = Budget(200.0), a_bench(10, comparison), Told()
    allowance = Allowance(budget, replace(request_of, budget_most=most), told)
    allowance.divide(observation(start_seconds=start), RHYTHM, bench, before)
    assert bool(told.budgets) is (search is not None)
    assert search is None or search <= budget.seconds - budget.costs.reserve < search + 10


SHARE = 0.05


def divided_by_share(request: TuneRequest, run: WatchedRun | None) -> tuple[Budget, Told]:
    budget, told = Budget(200.0), Told()
    asked = replace(request, share_of_run=SHARE, budget_most=0.0)
    Allowance(budget, asked, told).divide(observation(run=run), RHYTHM, a_bench(10))
    return budget, told


@pytest.mark.parametrize(
    ("run", "seconds"),
    [
        (replace(watched_run(start=4.0, steps=20.0), planned_steps=600), 4 + 300 * 20),
        (
            replace(watched_run(start=4.0, steps=20.0, evaluation=10.0, epochs=1), planned_steps=600),
            4 + 300 * 30,
        ),
        (watched_run(start=4.0, steps=6000.0, ended=True), 6004.0),
    ],
)
def test_a_part_of_the_training_is_known_once_it_was_watched(
    run: WatchedRun, seconds: float, request_of: TuneRequest
) -> None:
    """Two steps, or two epochs, were watched."""
    budget, told = divided_by_share(request_of, run)
    assert budget.seconds == pytest.approx(SHARE * seconds)
    assert told.budgets == [budget.seconds]


@pytest.mark.parametrize("run", [None, watched_run(start=4.0, steps=20.0)])
def test_a_part_of_nobody_knows_what_is_refused(run: WatchedRun | None, request_of: TuneRequest) -> None:
    with pytest.raises(Refusal, match=r"Say how long, as in --budget '5% of 2h', or give seconds"):
        divided_by_share(request_of, run)


def test_a_part_that_is_too_short_says_what_it_would_take(request_of: TuneRequest) -> None:
    run = replace(watched_run(start=4.0, steps=20.0), planned_steps=4)
    with pytest.raises(Refusal, match=r"and the budget is 2\.2 s: try --budget \d+"):
        divided_by_share(request_of, run)


def test_a_search_that_had_its_time_ends_when_something_slow_is_found(request_of: TuneRequest) -> None:
    budget, told = budget_after(130.0, Known(10.0, {"compile": 8.0}), 200.0), Told()
    Allowance(budget, request_of, told).leave_search(PLAN, 110.0)
    assert (budget.seconds, told.budgets) == (200.0, [])


@pytest.mark.parametrize("most", [600.0, 230.0])
def test_it_grows_for_as_many_checks_as_are_due(most: float, request_of: TuneRequest) -> None:
    grown = []
    for checks in (1, 2):
        budget, told = budget_after(170.0, Known(10.0, {"compile": 10.0}), 200.0), Told()
        allowance = Allowance(budget, replace(request_of, budget_most=most), told)
        assert allowance.leave_checks(PLAN, checks) is budget.affords_guard(PLAN, checks)
        assert told.budgets == ([budget.seconds] if budget.seconds > 200 else [])
        grown.append(budget.seconds)
    assert (200 < grown[0] < grown[1]) is (most == 600)
    assert grown[1] == 200 or most == 600


@pytest.mark.parametrize(("most", "then"), [(600.0, 400.0), (300.0, 300.0), (0.0, 200.0)])
def test_a_search_that_has_found_nothing_goes_on_once(
    most: float, then: float, request_of: TuneRequest
) -> None:
    budget, told = budget_after(130.0, Known(), 200.0), Told()
    time = SearchTime(
        budget, lambda: BASELINE, Allowance(budget, replace(request_of, budget_most=most), told)
    )
    left = time.left
    assert time.search_on() is (then > 200)
    assert time.left - left >= 0.6 * (then - 200)
    assert not time.search_on()
    assert (budget.seconds, told.budgets) == (then, [then] if then > 200 else [])
    assert all(told.nothing_found)


@pytest.mark.parametrize(("most", "grows"), [(600.0, True), (280.0, False), (0.0, False)])
def test_a_large_gain_whose_end_does_not_fit_makes_it_grow(
    most: float, grows: bool, request_of: TuneRequest
) -> None:
    """A detector in bf16 was 1.30 times faster, and left out although the budget could grow."""
    budget, told = budget_after(170.0, Known(10.0, {"compile": 20.0}), 200.0), Told()
    time = SearchTime(
        budget, lambda: BASELINE, Allowance(budget, replace(request_of, budget_most=most), told)
    )
    assert not time.affords_end(PLAN)
    assert time.leave_end(PLAN) is time.affords_end(PLAN) is grows
    assert told.budgets == ([budget.seconds] if grows else [])
    assert (budget.seconds > 200.0) is grows


@pytest.mark.parametrize(
    ("gains", "pair", "most", "then"),
    [
        pytest.param({"bf16": 1.08}, 10.0, 600.0, 300.0, id="a small gain"),
        pytest.param({"bf16": 1.08}, 4.5, 600.0, 230.0, id="whose processes are not many times longer"),
        pytest.param({"bf16": 1.2, "malloc": 1.2}, 10.0, 600.0, 200.0, id="two that make a good one"),
        pytest.param({"bf16": 1.2, "tf32": 1.2}, 10.0, 600.0, 300.0, id="one of them not in the plan"),
        pytest.param({"bf16": 1.08}, 10.0, 250.0, 250.0, id="as far as it may"),
        pytest.param({"bf16": 1.08}, 10.0, 0.0, 200.0, id="a budget that somebody named"),
    ],
)
def test_a_small_gain_has_time_for_the_processes_that_could_show_it(
    gains: dict[str, float], pair: float, most: float, then: float, request_of: TuneRequest
) -> None:
    """One of 1.07 times was not claimed after seven pairs, for want of 80 seconds."""
    plan, budget, told = Plan({"bf16": {}, "malloc": {}}), budget_after(130.0, Known(pair), 200.0), Told()
    for name, speedup in gains.items():
        budget.gains.add(1.02, [name])
        budget.gains.add(speedup, [name])  # by an ablation
    allowance = Allowance(budget, replace(request_of, budget_most=most), told)
    rest, (before,) = budget.rest().left, budget.confirmations(plan)
    allowance.leave_confirmation(plan)
    assert (budget.seconds, told.budgets) == (then, [then] if then > 200 else [])
    ((_, effort),) = budget.confirmations(plan)
    assert (effort.in_pairs > before[1].in_pairs) is (then > 200)
    assert budget.rest().left <= rest, "nothing else has the time that it does not need"
    allowance.leave_confirmation(plan)
    assert budget.seconds == then, "a plan that takes its place has no more"


@pytest.mark.parametrize(
    ("needs", "most", "then"),
    [(30.0, 600.0, 260.0), (1.0, 600.0, 220.0), (30.0, 220.0, None), (30.0, 0.0, None), (90.0, 600.0, None)],
)
def test_it_grows_a_little_for_a_part_that_has_come_to_take_a_good_share(
    needs: float, most: float, then: float | None, request_of: TuneRequest
) -> None:
    budget, told = budget_after(120.0, Known(10.0), 200.0), Told()
    allowance = Allowance(budget, replace(request_of, budget_most=most), told)
    time = SearchTime(budget, lambda: PLAN, allowance)
    assert time.leave_comparison(PLAN, needs) is (then is not None)
    assert budget.seconds == (then or 200.0)
    assert told.budgets == ([then] if then and then > 200 else [])
    assert (time.left_with(PLAN) >= needs) is (then is not None)


def test_a_budget_that_somebody_named_does_not_grow() -> None:
    assert not SearchTime(budget_after(130.0), lambda: BASELINE).search_on()
    late = SearchTime(budget_after(170.0, Known(10.0, {"compile": 20.0}), 200.0), lambda: BASELINE)
    assert not late.leave_end(PLAN)
