"""A plan in force inside a ``with`` block, for notebooks."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import hasten
from hasten.errors import PlanError

Losses = list[float]


class Run:
    """A model and its optimizer, made before or inside the block."""

    def __init__(self) -> None:
        torch.manual_seed(1)
        self.model = torch.nn.Sequential(
            torch.nn.Conv2d(1, 4, 3), torch.nn.Flatten(), torch.nn.Linear(4 * 36, 3)
        )
        self.optimizer = torch.optim.Adam(self.model.parameters())

    def train(self, steps: int = 4) -> Losses:
        losses = []
        for _ in range(steps):
            self.optimizer.zero_grad()
            loss = self.model(torch.randn(8, 1, 8, 8)).square().mean()
            torch.autograd.backward(loss)
            self.optimizer.step()
            losses.append(loss.item())
        return losses


def _train_and_fail(run: Run) -> None:
    run.train(2)
    raise KeyError("in the block")


def replaced_attributes() -> list[object]:
    """Those that seams replace."""
    from torch.utils.data import DataLoader

    return [
        torch.nn.Module.__call__,
        torch.Tensor.backward,
        torch.autograd.backward,
        torch.optim.Optimizer.__init__,
        DataLoader.__iter__,
    ]


def test_a_plan_is_not_said_to_have_no_effect_on_what_is_gone(capsys: pytest.CaptureFixture[str]) -> None:
    with hasten.applied({"channels_last": {}}):
        Run().train()
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("made_inside", [True, False])
def test_the_plan_takes_effect_and_leaves_nothing(
    made_inside: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    before = replaced_attributes()
    plain = Run().train()
    run = Run()
    with hasten.applied({"bf16": {}, "fused_optimizer": {}}):
        run = Run() if made_inside else run
        torch.manual_seed(1)
        Run()  # draws as many random numbers as the plain run did before its first step
        found = run.train()
        assert run.optimizer.param_groups[0]["fused"] is True
    assert found != plain
    assert found == pytest.approx(plain, rel=0.03)
    assert run.optimizer.param_groups[0]["fused"] is None
    assert run.model._compiled_call_impl is None
    assert replaced_attributes() == before
    assert capsys.readouterr().err == ""


def test_it_is_undone_when_the_block_raises() -> None:
    before = replaced_attributes()
    run = Run()
    with pytest.raises(KeyError, match="in the block"), hasten.applied({"fused_optimizer": {}}):
        _train_and_fail(run)
    assert run.optimizer.param_groups[0]["fused"] is None
    assert replaced_attributes() == before


def test_a_plan_from_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "plan.toml"
    path.write_text("format = 1\n[techniques.malloc]\n[techniques.fused_optimizer]\n")
    run = Run()
    with hasten.applied(path):
        run.train(2)
        assert run.optimizer.param_groups[0]["fused"] is True
    assert "malloc is left out: it must be set when a process starts" in capsys.readouterr().err


def test_what_does_not_apply_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    with hasten.applied({"dataset_in_ram": {}}):
        assert len(Run().train(2)) == 2
    assert "dataset_in_ram does not apply here and is left out" in capsys.readouterr().err


def test_what_had_no_effect_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    model = torch.nn.Embedding(4, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with hasten.applied({"bf16": {}}):
        torch.autograd.backward(model(torch.tensor([1, 2])).sum())
        optimizer.step()
    assert "bf16 had no effect" in capsys.readouterr().err


@pytest.mark.parametrize("plan", [{"bf17": {}}, {"threads": {}}, {"bf16": {"speed": 9}}])
def test_a_broken_plan(plan: dict[str, dict[str, int]]) -> None:
    with pytest.raises(PlanError), hasten.applied(plan):
        pytest.fail("the block must not run")
