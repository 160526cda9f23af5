"""What a plan's steps took when it was tuned: written into its file, and read again."""

from __future__ import annotations

from pathlib import Path

import pytest

from hasten.plans.files import SavedPlan, read_plan, write_plan
from hasten.plans.pace import as_measured, pace_of
from hasten.records.plan import Plan
from hasten.records.run_pace import TunedPace

PACE = TunedPace(0.012345678, 0.0139, 64.0, 0.0021)


def saved(**measured: object) -> SavedPlan:
    return SavedPlan(Plan({"bf16": {}}), measured=measured)


def test_it_is_read_as_it_was_written(tmp_path: Path) -> None:
    write_plan(tmp_path / "plan.toml", saved(**as_measured(PACE)))
    assert pace_of(read_plan(tmp_path / "plan.toml")) == TunedPace(0.01235, 0.0139, 64.0, 0.0021)


def test_without_samples_it_is_of_steps_alone() -> None:
    pace = TunedPace(0.01, 0.011)
    assert "samples_per_step" not in as_measured(pace)
    assert pace_of(saved(**as_measured(pace))) == pace


def test_nothing_known_is_nothing_written() -> None:
    assert as_measured(None) == {}


@pytest.mark.parametrize(
    "measured",
    [
        {},
        {"step_seconds": 0.01},
        {"step_seconds": "0.01", "step_seconds_most": 0.02},
        {"step_seconds": True, "step_seconds_most": 2},
        {"step_seconds": 0.0, "step_seconds_most": 0.02},
        {"step_seconds": -1.0, "step_seconds_most": 0.02},
        {"step_seconds": 0.01, "step_seconds_most": float("inf")},
        {"step_seconds": 0.01, "step_seconds_most": float("nan")},
        {"step_seconds": 0.02, "step_seconds_most": 0.01},
        {"step_seconds": [0.01], "step_seconds_most": 0.01},
    ],
)
def test_a_plan_that_does_not_tell_is_a_plan_all_the_same(measured: dict[str, object]) -> None:
    assert pace_of(saved(**measured)) is None


def test_samples_that_are_none_are_not_known() -> None:
    measured = {"step_seconds": 0.01, "step_seconds_most": 0.02, "samples_per_step": "64"}
    assert pace_of(saved(**measured)) == TunedPace(0.01, 0.02)
