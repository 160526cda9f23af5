"""Intel's extension: refused where it is absent or another torch's; a made-up one shows what is called."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import pytest
import torch

from hasten.inside.techniques.intel_extension import IntelExtension
from hasten.records.plan import Plan
from hasten.testing.workbench import workbench

from .made_up import facts, machine, root

PACKAGE = "intel_extension_for_pytorch"
PLAN = Plan({"intel_extension": {}})


def installed(version: str) -> Any:
    return machine(packages={PACKAGE: version})


def test_where_it_is_absent_the_reason_is_said() -> None:
    (reason,) = IntelExtension.refuse(facts())
    assert reason.startswith("intel_extension_for_pytorch is not installed; it ended with torch 2.8")


def test_it_fits_one_torch_only() -> None:
    assert IntelExtension.refuse(facts(installed("2.13.0+cpu"))) == []
    assert IntelExtension.refuse(facts(installed("2.8.0+cpu"))) == [
        "intel_extension_for_pytorch 2.8.0+cpu does not work with torch 2.13.0"
    ]


def test_training_on_a_gpu_is_no_case_for_it() -> None:
    found = IntelExtension.refuse(facts(installed("2.13.0"), roots=(root(devices=("cuda:0",)),)))
    assert found == ["the training is not on the CPU"]


@pytest.mark.parametrize("replaces", [True, False])
def test_model_and_optimizer_are_handed_over_once(monkeypatch: pytest.MonkeyPatch, replaces: bool) -> None:
    calls: list[tuple[Any, Any]] = []

    class Layer(torch.nn.ReLU):
        __module__ = f"{PACKAGE}.nn"

    def optimize(model: Any, optimizer: Any, inplace: bool) -> None:
        assert inplace
        calls.append((model, optimizer))
        if replaces:
            model[1] = Layer()

    extension = ModuleType(PACKAGE)
    extension.optimize = optimize  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, PACKAGE, extension)
    with workbench() as bench:
        bench.train(1)
        bench.switchboard.switch(PLAN)
        bench.training.changed = True
        bench.train(2)
        assert calls == [(bench.model, bench.optimizer)]
        (proof,) = bench.switchboard.proofs()
        assert proof.effective is replaces, proof.evidence


def test_one_that_cannot_be_loaded_leaves_the_training_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, PACKAGE, None)
    with workbench() as bench:
        bench.train(1)
        with pytest.raises(Exception, match="cannot be loaded"):
            bench.switchboard.switch(PLAN)


def test_the_same_by_hand() -> None:
    assert "ipex.optimize(model, optimizer=optimizer)" in IntelExtension.by_hand({})
