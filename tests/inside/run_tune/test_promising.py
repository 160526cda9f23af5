"""What a run may try: exact techniques, and what the guard has passed; nothing that could cost it much."""

from __future__ import annotations

from typing import Any

import pytest

from hasten.inside.run_tune.promising import Trying, promising
from hasten.inside.techniques.catalog import CATALOG
from hasten.records.plan import BASELINE, Plan
from hasten.records.run_tuning import RunTuning
from tests.bench.made_up import facts, loader, step


def tried(tuning: RunTuning | None = None, plan: Plan = BASELINE, **seen: Any) -> dict[str, Trying]:
    found = promising(facts(**seen), tuning or RunTuning(), plan)
    return {one.technique.name: one for one in found}


def test_only_what_is_exact_and_live_is_tried() -> None:
    found = tried()
    assert "fused_optimizer" in found
    for name, one in found.items():
        assert CATALOG[name].scope == "live"
        assert CATALOG[name].parts == ("steps",)
        assert all(CATALOG[name].risk_of(how, facts()) == "exact" for how in one.settings)


def test_what_the_guard_has_passed_is_tried_with_the_settings_that_it_passed() -> None:
    assert "bf16" not in tried()
    assert tried(RunTuning(Plan({"bf16": {}})))["bf16"].settings == [{}]
    assert "malloc" not in tried(RunTuning(Plan({"malloc": {}})))  # of another process


def test_what_is_in_force_is_not_tried_again() -> None:
    assert "fused_optimizer" not in tried(plan=Plan({"fused_optimizer": {}}))


def test_what_takes_hardly_any_of_a_step_is_not_tried() -> None:
    steps = (step(shares={"forward": 0.996, "optimizer": 0.004}),) * 20
    assert "fused_optimizer" not in tried(steps=steps)


def test_a_step_that_was_held_up_does_not_hide_the_rest() -> None:
    usual = step(0.001, shares={"forward": 0.9, "optimizer": 0.1})
    held_up = step(5.0, shares={"forward": 1.0})
    assert "fused_optimizer" in tried(steps=(*[usual] * 19, held_up))


def test_what_is_set_up_at_once_comes_first() -> None:
    """Samples that are kept take an epoch's waiting: here 1,000 steps of 2.5 ms."""
    order = list(tried(loaders=(loader(samples=8000),)).values())
    took = [one.setup_seconds for one in order]
    assert took == sorted(took)
    cache = next(one for one in order if one.technique.name == "dataset_in_ram")
    assert cache.setup_seconds == pytest.approx(2.5)
