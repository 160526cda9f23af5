"""Gradients set to None if the script asks for zeros, and parameters that move as if they had zeros."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from hasten.inside.observing.uses import Uses
from hasten.inside.techniques.zero_grad_to_none import ZeroGradToNone
from hasten.records.plan import BASELINE, Plan
from hasten.testing.workbench import workbench

from .made_up import facts

PLAN = Plan({"zero_grad_to_none": {}})


@pytest.mark.parametrize("owner", ["optimizer", "model"])
def test_zeros_become_none(owner: str) -> None:
    with workbench() as bench:
        bench.train(1)
        bench.switchboard.switch(PLAN)
        getattr(bench, owner).zero_grad(set_to_none=False)
        assert all(p.grad is None for p in bench.model.parameters())
        (proof,) = bench.switchboard.proofs()
        assert proof.effective


def test_after_removal_zeros_are_zeros_again() -> None:
    with workbench() as bench:
        bench.train(1)
        bench.switchboard.switch(PLAN)
        bench.optimizer.zero_grad(set_to_none=False)
        bench.switchboard.switch(BASELINE)
        assert all(p.grad is not None and not p.grad.any() for p in bench.model.parameters())


def test_a_parameter_that_takes_no_part_moves_on_as_before() -> None:
    """Momentum moves what had a gradient of zero, and leaves alone what had none."""

    def train(on: Plan) -> list[torch.Tensor]:
        with workbench() as bench:
            torch.manual_seed(0)
            used, idle = nn.Linear(2, 2), nn.Linear(2, 2)
            model = nn.ModuleList([used, idle])
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
            bench.switchboard.switch(on)
            for layers in ((used, idle), (used,), (used,)):
                optimizer.zero_grad(set_to_none=False)
                sum(layer(torch.ones(1, 2)).sum() for layer in layers).backward()
                optimizer.step()
            return [p.detach() for p in model.parameters()]

    for plain, none in zip(train(BASELINE), train(PLAN), strict=True):
        assert torch.equal(plain, none)


@pytest.mark.parametrize("by", ["the loss", "torch.autograd"])
def test_a_script_may_read_all_gradients_after_its_backward_pass(by: str) -> None:
    """As one that clamps them, and freezes a part of its model after some epochs."""
    with workbench() as bench:
        bench.train(1)
        bench.switchboard.switch(PLAN)
        frozen = next(bench.model.parameters()).requires_grad_(False)
        bench.optimizer.zero_grad(set_to_none=False)
        loss = bench.model(torch.randn(2, 3, 8, 8)).sum()
        loss.backward() if by == "the loss" else torch.autograd.backward(loss)
        for parameter in bench.model.parameters():
            assert parameter.grad is not None
            parameter.grad.clamp_(-1, 1)
        assert frozen.grad is not None
        assert not frozen.grad.any()


Gradients = Callable[[list[nn.Parameter]], object]


def of_one_buffer(parameters: list[nn.Parameter]) -> torch.Tensor:
    buffer = torch.zeros(sum(p.numel() for p in parameters))
    for parameter, part in zip(parameters, torch.split(buffer, [p.numel() for p in parameters]), strict=True):
        parameter.grad = part.view_as(parameter)
    return buffer


def of_a_buffer_each(parameters: list[nn.Parameter]) -> list[torch.Tensor]:
    buffers = [torch.zeros(p.numel()) for p in parameters]
    for parameter, buffer in zip(parameters, buffers, strict=True):
        parameter.grad = buffer.data.view(parameter.shape)
    return buffers


def in_a_list(parameters: list[nn.Parameter]) -> list[torch.Tensor | None]:
    return [parameter.grad for parameter in parameters]


def seen_flat(parameters: list[nn.Parameter]) -> list[torch.Tensor]:
    return [parameter.grad.view(-1) for parameter in parameters if parameter.grad is not None]


@pytest.mark.parametrize("hold", [of_one_buffer, of_a_buffer_each, in_a_list, seen_flat])
def test_gradients_that_a_script_holds_stay_the_same_tensors(hold: Gradients) -> None:
    with workbench() as bench:
        bench.train(1)
        held = hold(list(bench.model.parameters()))
        bench.switchboard.switch(PLAN)
        bench.optimizer.zero_grad(set_to_none=False)
        for parameter in bench.model.parameters():
            assert parameter.grad is not None
            assert not parameter.grad.any()
        (proof,) = bench.switchboard.proofs()
        assert not proof.effective
        del held


def test_gradients_may_be_copied_into_those_that_are_zero() -> None:
    with workbench() as bench:
        bench.train(1)
        bench.switchboard.switch(PLAN)
        parameters = list(bench.model.parameters())
        bench.optimizer.zero_grad(set_to_none=False)
        loss = bench.model(torch.randn(2, 3, 8, 8)).sum()
        for parameter, gradient in zip(parameters, torch.autograd.grad(loss, parameters), strict=True):
            assert parameter.grad is not None
            parameter.grad.copy_(gradient)


@pytest.mark.parametrize(("arguments", "noted"), [({}, False), ({"set_to_none": False}, True)])
def test_what_a_script_asks_for_is_noted(arguments: dict[str, Any], noted: bool) -> None:
    with workbench() as bench:
        uses = Uses()
        uses.watch(bench.training)
        bench.optimizer.zero_grad(**arguments)
        assert ("zero_grad(set_to_none=False)" in uses.names()) is noted


def test_clipping_is_noted() -> None:
    with workbench() as bench:
        uses = Uses()
        uses.watch(bench.training)
        assert "clipping" not in uses.names()
        torch.nn.utils.clip_grad_norm_(bench.model.parameters(), 1.0)
        assert "clipping" in uses.names()


def test_a_script_that_leaves_the_default_is_refused() -> None:
    assert ZeroGradToNone.refuse(facts()) == ["the script does not call zero_grad(set_to_none=False)"]
    assert ZeroGradToNone.refuse(facts(uses=("zero_grad(set_to_none=False)",))) == []
