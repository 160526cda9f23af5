"""Techniques of process scope: one instance from the process' start to its end."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import pytest

from hasten.inside.techniques.base import Technique
from hasten.inside.techniques.catalog import CATALOG
from hasten.inside.training import NotApplicable, Training
from hasten.records.plan import BASELINE, Plan, Settings
from hasten.records.trial import Proof
from hasten.testing.workbench import Workbench, workbench


class Starting(Technique):
    """Counts its calls; cannot be started with ``why``."""

    name = "starting"
    scope = "process"
    calls: ClassVar[list[str]] = []

    def start(self, training: Training, settings: Settings) -> None:
        if "why" in settings:
            raise NotApplicable(str(settings["why"]))
        if "error" in settings:
            raise KeyError("unforeseen")
        self.calls.append(f"start {id(self)}")

    def install(self, training: Training, settings: Settings) -> None:
        self.calls.append(f"install {id(self)}")

    def proof(self, training: Training) -> Proof:
        return Proof(self.name, True, str(id(self)))


@pytest.fixture
def starting(monkeypatch: pytest.MonkeyPatch) -> Iterator[Workbench]:
    monkeypatch.setitem(CATALOG, "starting", Starting)
    Starting.calls.clear()
    with workbench() as bench:
        yield bench


def test_one_instance_serves_a_process_from_its_start(starting: Workbench) -> None:
    plan = Plan({"starting": {}})
    starting.switchboard.start(plan)
    for switched in (plan, BASELINE, plan):
        starting.switchboard.switch(switched)
    (proof,) = starting.switchboard.proofs()
    assert Starting.calls == [f"start {proof.evidence}"] + 2 * [f"install {proof.evidence}"]


@pytest.mark.parametrize(
    ("settings", "told"), [({"why": "no room"}, "no room"), ({"error": 1}, "with KeyError: 'unforeseen'")]
)
def test_what_could_not_be_started_is_told_of_when_it_is_put_in_force(
    starting: Workbench, settings: dict[str, Any], told: str
) -> None:
    plan = Plan({"starting": settings})
    starting.switchboard.start(plan)
    with pytest.raises(NotApplicable, match=told):
        starting.switchboard.switch(plan)
    assert starting.switchboard.failed == "starting"
    assert Starting.calls == []
