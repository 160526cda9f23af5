"""What must hold of a training that a plan changes: finite losses, and checkpoints of the same shapes."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hasten.bench.guard.change_guard import guard_change, judge_change
from hasten.records.plan import Plan
from hasten.records.trace import StepTrace
from hasten.report.guard import reasons
from tests.bench.real_workers import trials_for
from tests.inside.distributed.forked import workers_forked

SHAPES = {"model 0: weight": [4, 3], "optimizer 0: exp_avg of parameter 0": [4, 3]}
CHANGING = ["batch_size"]


@pytest.fixture(autouse=True, scope="module")
def _workers_are_forks() -> Iterator[None]:
    """What is tested comes after their start."""
    with workers_forked():
        yield


def trained(losses: list[float], steps: int = 30) -> list[StepTrace]:
    return [StepTrace(losses=tuple(losses)) for _ in range(steps)]


def test_finite_losses_and_equal_shapes_pass_and_say_what_was_not_judged() -> None:
    verdict = judge_change(
        SHAPES, {**SHAPES, "optimizer 0: max of parameter 0": [4]}, trained([1.0]), CHANGING
    )
    assert (verdict.passed, verdict.steps, reasons(verdict)) == (True, 30, [])
    assert verdict.changes == ("batch_size",)
    assert not verdict.loss_curve


@pytest.mark.parametrize(
    ("planned", "losses", "steps", "reason"),
    [
        (
            {**SHAPES, "model 0: weight": [2, 3]},
            [1.0],
            30,
            "checkpoints have different shapes: model 0: weight",
        ),
        ({"model 0: weight": [4, 3]}, [1.0], 30, "checkpoints have different shapes: optimizer 0: exp_avg"),
        ({**SHAPES, "model 0: mask": [4]}, [1.0], 30, "checkpoints have different shapes: model 0: mask"),
        (SHAPES, [1.0], 19, "only 19 steps could be seen, and 20 are needed"),
        (SHAPES, [], 30, "losses are missing"),
        (SHAPES, [math.nan], 30, "the loss is not a number in step 1"),
        (SHAPES, [1.0, math.inf], 30, "the loss is not a number in step 1"),
    ],
)
def test_what_does_not_hold(planned: Any, losses: list[float], steps: int, reason: str) -> None:
    verdict = judge_change(SHAPES, planned, trained(losses, steps), CHANGING)
    assert not verdict.passed
    assert reasons(verdict)[0].startswith(reason)


TRAINING = """
    from ground import *

    torch.manual_seed(0)
    model = Cnn()
    optimizer = torch.optim.SGD(model.parameters(), lr={rate}, momentum=0.9)
    for pictures, labels in batches(Pictures(), {steps}):
        train_step(model, optimizer, pictures, labels)
"""
PLAN = Plan({"batch_size": {"factor": 2}})


@pytest.mark.parametrize(
    ("rate", "steps", "reason"),
    [
        ("0.01", "200", ""),
        ("0.01", "12", "only 12 steps could be seen, and 20 are needed"),
        ("1e30", "200", "the loss is not a number"),
    ],
    ids=["goes well", "too short", "diverges"],
)
def test_on_a_real_training(tmp_path: Path, rate: str, steps: str, reason: str) -> None:
    with trials_for(tmp_path, TRAINING.format(rate=rate, steps=steps)) as trials:
        verdict = guard_change(trials, PLAN, CHANGING, seed=1, steps=25)
    assert verdict.passed == (not reason), reasons(verdict)
    assert not reason or reasons(verdict)[0].startswith(reason)


def test_a_model_that_becomes_smaller_keeps_the_shapes_of_its_checkpoints(tmp_path: Path) -> None:
    pytest.importorskip("torch_pruning", reason="torch-pruning is not installed: pip install 'hasten[prune]'")
    plan = Plan({"prune": {"ratio": 0.5, "after": 4}})
    with trials_for(tmp_path, TRAINING.format(rate="0.01", steps="200")) as trials:
        verdict = guard_change(trials, plan, ["prune"], seed=1, steps=25)
        with trials.worker(plan) as worker:
            worker.wait_started()
            worker.steps(8)
            (proof,) = worker.proofs()
    assert verdict.passed, reasons(verdict)
    assert verdict.steps == 31  # 6 until it is in force and settled, then 25
    assert proof.effective, proof.evidence
