"""What of a plan is for which part of a run."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from hasten.bench.base import for_steps
from hasten.records.plan import Plan, Settings
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
