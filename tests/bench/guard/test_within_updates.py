"""The guard on a training that is a single update by LBFGS, of which each evaluation is a step."""

from __future__ import annotations

from pathlib import Path

from hasten.bench.guard.guard import guard
from hasten.bench.observe import observe
from hasten.records.plan import Plan
from hasten.report.guard import reasons
from tests.scripts.shapes import FOLDER
from tests.scripts.trial import trials_for


def test_what_only_rounds_passes(tmp_path: Path) -> None:
    """With two threads the line search takes other steps after some evaluations, and counts them."""
    folder = tmp_path / "work"
    folder.mkdir()
    with trials_for(FOLDER / "one_update.py", folder) as trials:
        observation, _ = observe(trials)
        assert observation.steps_are_evaluations
        verdict = guard(trials, Plan({"threads": {"count": 2}}), False, "float32", seed=1, steps=90)
    assert verdict.passed, reasons(verdict)
    assert verdict.steps == 90
    assert verdict.numerics is not None
    assert set(verdict.numerics.compared) == {"gradient"}
