"""Which part of a plan there is time to check, and what is said if there is none for any."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import pytest

from hasten.bench.trials import Trials
from hasten.records.plan import BASELINE, Plan
from hasten.records.reasons import Reason
from hasten.records.result import Tried
from hasten.records.verdict import GuardVerdict, TooLittleTime
from hasten.report.guard import reasons
from hasten.report.progress import Silent
from hasten.report.reasons import reason_words
from hasten.tuning.accuracy import Accuracy, too_late
from hasten.tuning.budget import Budget
from tests.bench.made_up import facts

PLAN = Plan({"malloc": {}, "compile": {}, "bf16": {}})


class Left:
    """There is time for plans without these techniques."""

    def __init__(self, *slow: str) -> None:
        self._slow = set(slow)

    def affords_guard(self, plan: Plan, checks: int = 1) -> bool:
        return not self._slow & set(plan.techniques)

    def too_little(self, plan: Plan, techniques: Sequence[str] = ()) -> TooLittleTime:
        return TooLittleTime(700, tuple(techniques))


def part(plan: Plan, *slow: str) -> tuple[Plan, list[Tried]]:
    budget = cast(Budget, Left(*slow))
    return Accuracy(cast(Trials, None), facts(), "close", 0, budget, Silent())._that_fits(plan)


@pytest.mark.attack("truth")
def test_what_turned_out_too_slow_to_set_up_does_not_cost_the_rest_its_check() -> None:
    plan, (row,) = part(PLAN, "compile")
    assert plan == PLAN.without("compile")
    assert row.technique == "compile"
    assert "compile could be checked and then confirmed: try --budget 700" in reason_words(row.reason)


@pytest.mark.parametrize("slow", [(), ("malloc", "compile", "bf16")], ids=["all fits", "nothing fits"])
def test_nothing_is_left_out_for_nothing(slow: tuple[str, ...]) -> None:
    assert part(PLAN, *slow) == (PLAN, [])


@pytest.mark.parametrize(
    ("names", "blamed"),
    [
        (("malloc", "denormals", "channels_last", "dataset_in_ram"), "channels_last"),
        (("malloc", "channels_last", "bf16"), "bf16"),
        (("malloc", "denormals"), "denormals"),
    ],
)
def test_without_time_for_each_alone_what_computes_otherwise_is_blamed(
    names: tuple[str, ...], blamed: str
) -> None:
    """Layers that compute one thing in one layout alone depart under channels_last: malloc was blamed."""
    plan = Plan({name: {} for name in names})
    accuracy = Accuracy(cast(Trials, None), facts(), "close", 0, cast(Budget, Left(*names)), Silent())
    assert list(accuracy._to_blame(plan, GuardVerdict("not held"))) == [blamed]


def test_where_all_that_gained_came_too_late_the_budget_is_named() -> None:
    def row(name: str, reason: Reason) -> Tried:
        return Tried(name, {}, None, BASELINE, False, reason, "live")

    slow = row("compile", Reason("gain", "too late", budget=640.0))
    budget = cast(Budget, Left())
    assert too_late([row("bf16", Reason("no gain"))], budget) is None
    verdict = too_late([slow, row("bf16", Reason("no gain"))], budget)
    assert verdict is not None
    assert verdict.unchecked
    assert reasons(verdict) == [
        "the budget ended before compile could be checked and then confirmed: try --budget 640"
    ]
