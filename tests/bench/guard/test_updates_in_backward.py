"""Where gradients are freed within a backward pass, the guard knows all the same what they were."""

from __future__ import annotations

from pathlib import Path

import pytest

from hasten.bench.guard.guard import guard
from hasten.inside.techniques import optimizer_in_backward
from hasten.records.plan import Plan
from hasten.report.guard import reasons
from tests.bench.real_workers import trials_for
from tests.inside.distributed.forked import workers_forked

IN_BACKWARD = """
    from ground import *

    torch.manual_seed(0)
    model = Cnn()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.001)
    for pictures, labels in batches(Pictures(240)):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(pictures), labels).backward()
        optimizer.step()
"""


@pytest.fixture(autouse=True)
def _only_the_script_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fork of the tests has their files, too."""
    monkeypatch.setattr(optimizer_in_backward, "reads_in_source", lambda files: "")


@pytest.mark.parametrize("wrong", [False, pytest.param(True, marks=pytest.mark.thorough)])
def test_updates_within_a_backward_pass_are_compared(tmp_path: Path, wrong: bool) -> None:
    plan = Plan({"optimizer_in_backward": {}, **({"bf16": {}} if wrong else {})})
    with workers_forked(), trials_for(tmp_path, IN_BACKWARD) as trials:
        verdict = guard(trials, plan, draws=False, precision="float32", seed=5, steps=40)
    compared = verdict.numerics.compared
    assert {"gradient", "update", "since exp_avg"} <= set(compared), verdict
    assert verdict.passed is not wrong, reasons(verdict)
    if not wrong:
        assert compared["gradient"].scale == pytest.approx(1.0, abs=1e-6)
        assert verdict.loss_curve.deviation == 0.0
