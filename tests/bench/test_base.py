"""What of a plan is for which part of a run."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from hasten.bench.base import for_steps, method_of, outside_steps
from hasten.records.plan import BASELINE, Plan, Settings
from tests.bench.paper_epochs import QUICK, known

MALLOC: Mapping[str, Settings] = {"malloc": {}}
START: Mapping[str, Settings] = {"lazy_dynamo": {}}


@pytest.mark.parametrize(
    ("plan", "left"),
    [
        ({}, {}),
        (MALLOC, MALLOC),
        ({**MALLOC, **QUICK.techniques}, MALLOC),
        ({**MALLOC, **START, **QUICK.techniques}, {**MALLOC, **START}),
        ({**START, **QUICK.techniques}, {}),  # nothing of it is for steps
        (QUICK.techniques, {}),
    ],
)
def test_what_a_plan_has_for_steps(plan: Mapping[str, Settings], left: Mapping[str, Settings]) -> None:
    with known():
        assert for_steps(Plan(plan)) == Plan(left)


@pytest.mark.parametrize(
    ("plan", "left", "method"),
    [
        ({**MALLOC, **QUICK.techniques}, {**MALLOC, **QUICK.techniques}, "pairs"),
        ({**START, **QUICK.techniques}, {**START, **QUICK.techniques}, "pairs"),
        (QUICK.techniques, QUICK.techniques, "live"),
        (START, {}, "starts"),
    ],
)
def test_what_is_in_every_step_is_for_steps(
    plan: Mapping[str, Settings], left: Mapping[str, Settings], method: str
) -> None:
    """A graph that is learnt as a whole is evaluated after each update."""
    within = {"evaluation"}
    with known():
        assert for_steps(Plan(plan), within) == Plan(left)
        assert outside_steps(BASELINE, Plan(plan), within) == ()
        assert method_of(BASELINE, Plan(plan), within=within) == method
        saves = Plan({**plan, "late_saves": {}})
        assert outside_steps(BASELINE, saves, within) == ("saving",)
        assert for_steps(saves, within) == Plan(left)
