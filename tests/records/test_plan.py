"""Plans: equal by content, changed by copies only."""

from __future__ import annotations

from hasten.records.plan import BASELINE, Plan

PLAN = Plan({"threads": {"count": 2}, "bf16": {}})


def test_the_order_of_adoption_does_not_matter() -> None:
    other = Plan({"bf16": {}, "threads": {"count": 2}})
    assert other == PLAN
    assert hash(other) == hash(PLAN)
    assert other.key == PLAN.key


def test_settings_matter() -> None:
    assert Plan({"threads": {"count": 1}, "bf16": {}}) != PLAN


def test_a_plan_is_not_what_it_is_made_of() -> None:
    assert PLAN.techniques != PLAN


def test_the_baseline_is_the_empty_plan() -> None:
    assert Plan() == BASELINE
    assert not BASELINE
    assert BASELINE.label == "baseline"


def test_adding_and_taking_away_leave_the_plan_as_it_was() -> None:
    assert PLAN.adding("malloc", {}).without("malloc") == PLAN
    assert PLAN.adding("threads", {"count": 1}) == Plan({"threads": {"count": 1}, "bf16": {}})
    assert PLAN.without("threads") == Plan({"bf16": {}}) == PLAN.only({"bf16", "malloc"})
    assert Plan({"threads": {"count": 2}, "bf16": {}}) == PLAN


def test_what_is_not_there_can_be_taken_away() -> None:
    assert PLAN.without("malloc") == PLAN


def test_a_plan_keeps_its_own_settings() -> None:
    settings: dict[str, str | int | float | bool] = {"count": 2}
    plan = BASELINE.adding("threads", settings)
    settings["count"] = 64
    assert plan.techniques["threads"] == {"count": 2}


def test_it_is_named_in_order_of_adoption() -> None:
    assert PLAN.adding("malloc", {}).label == "threads + bf16 + malloc"


def test_a_plan_holds_its_parts_with_their_settings() -> None:
    assert PLAN.holds(PLAN)
    assert PLAN.holds(BASELINE)
    assert PLAN.holds(Plan({"threads": {"count": 2}}))
    assert not PLAN.holds(Plan({"threads": {"count": 1}}))
    assert not PLAN.holds(Plan({"malloc": {}}))
    assert not Plan({"threads": {"count": 2}}).holds(PLAN)
