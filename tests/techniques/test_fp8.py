"""What can be seen of float8 without such a GPU: refusals, and twins that leave the model as it was."""

from __future__ import annotations

import copy
import sys
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import nn

from hasten.inside.techniques.fp8 import Fp8
from hasten.inside.training import NotApplicable
from hasten.records.plan import BASELINE, Plan
from hasten.testing.workbench import workbench

from .made_up import facts, machine, root

PLAN = Plan({"fp8": {}})
GPU = machine(accelerators=("NVIDIA H200",))


class Twin(nn.Linear):
    """In place of torchao's layer, made as that is made; plain float32."""

    @classmethod
    def from_float(cls, layer: nn.Linear) -> Twin:
        return cls(layer.in_features, layer.out_features, bias=layer.bias is not None)


@pytest.fixture
def _torchao(monkeypatch: pytest.MonkeyPatch) -> None:
    from importlib.machinery import ModuleSpec

    for name in ("torchao", "torchao.float8", "torchao.float8.float8_linear"):
        module: Any = ModuleType(name)
        module.__spec__ = ModuleSpec(name, None)
        module.Float8Linear = Twin
        monkeypatch.setitem(sys.modules, name, module)


def known(model: nn.Module) -> torch.optim.Optimizer:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model(torch.ones(2, 16))
    return optimizer


def no_capability_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """The layers are on the CPU here: the check of the device is left out."""
    from hasten.inside.techniques import fp8

    monkeypatch.setattr(fp8, "_computes", lambda *_: True)


@pytest.mark.usefixtures("_torchao")
def test_layers_that_fit_are_computed_by_their_twins(monkeypatch: pytest.MonkeyPatch) -> None:
    no_capability_asked(monkeypatch)
    with workbench() as bench:
        model = nn.Sequential(nn.Linear(16, 32), nn.Linear(32, 3))
        optimizer = known(model)
        keys = list(model.state_dict())
        bench.switchboard.switch(PLAN)
        output = model(torch.ones(32, 16))
        output.sum().backward()
        (proof,) = bench.switchboard.proofs()
        assert proof.effective
        assert proof.evidence == "1 float8 calls of 1 layers"
        assert all(p.grad is not None for p in model.parameters())
        assert list(model.state_dict()) == keys
        assert torch.equal(copy.deepcopy(model)(torch.ones(32, 16)), output)
        bench.switchboard.switch(BASELINE)
        assert all(layer._compiled_call_impl is None for layer in list(model)[:1])
        del optimizer


@pytest.mark.usefixtures("_torchao")
def test_a_batch_whose_rows_do_not_fit_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    no_capability_asked(monkeypatch)
    with workbench() as bench:
        model = nn.Sequential(nn.Linear(16, 32))
        optimizer = known(model)
        bench.switchboard.switch(PLAN)
        for rows in (32, 31, 0):
            model(torch.ones(rows, 16)).sum().backward()
        (proof,) = bench.switchboard.proofs()
        assert proof.evidence == "1 float8 calls of 1 layers"
        del optimizer


@pytest.mark.usefixtures("_torchao")
def test_a_training_on_the_cpu_is_left_alone() -> None:
    with workbench() as bench:
        optimizer = known(model := nn.Linear(16, 16))
        with pytest.raises(NotApplicable, match=r"compute capability 8\.9"):
            bench.switchboard.switch(PLAN)
        del optimizer, model


def test_without_torchao_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torchao", None)
    with workbench() as bench:
        optimizer = known(model := nn.Linear(16, 16))
        with pytest.raises(NotApplicable, match="torchao"):
            bench.switchboard.switch(PLAN)
        del optimizer, model


@pytest.mark.parametrize(
    ("found", "reasons"),
    [
        (facts(), ["this machine has no GPU with float8 arithmetic"]),
        (facts(GPU), ["the training is not on a CUDA GPU"]),
        (facts(GPU, roots=(root(devices=("cuda:0",)),)), []),
    ],
)
def test_what_it_refuses(found: Any, reasons: list[str]) -> None:
    assert Fp8.refuse(found) == reasons
