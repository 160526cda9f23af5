"""Tunes on paper in the working directory, one after another, until somebody ends them.

It runs by itself, and says on standard output what is finished: "begin" before a tune, "tried" for each
comparison, and at a tune's end the techniques of its plan.
"""

from __future__ import annotations

from itertools import cycle

import pytest

from hasten.records.plan import Plan
from hasten.records.result import Tried
from hasten.report.progress import Silent
from hasten.tuning.pipeline import tune
from tests.tuning.test_pipeline import on_paper, request

EFFECTS = ({"dataset_in_ram": 0.5, "bf16": 0.7}, {"bf16": 0.6, "fused_optimizer": 0.8})
"""By turns, so that each tune has another plan to write."""


class Telling(Silent):
    def tried(self, row: Tried) -> None:
        print("tried", flush=True)


def plan_for(effects: dict[str, float]) -> Plan:
    return Plan({name: {} for name in effects})


def main() -> None:
    paper = on_paper(pytest.MonkeyPatch())
    for effects in cycle(EFFECTS):
        paper.effects = effects
        print("begin", flush=True)
        print(*sorted(tune(request(fresh=True), Telling()).plan.techniques), flush=True)


if __name__ == "__main__":
    main()
