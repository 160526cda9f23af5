"""What one training stood at is taken up by another: values alone change hands."""

from __future__ import annotations

import io
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from hasten.inside.guarding.training_state import (
    State,
    buffers_of,
    parameters_of,
    take_up,
    taken_down,
)
from hasten.records.plan import BASELINE, Plan
from hasten.testing.workbench import Workbench, workbench

OPTIMIZERS: dict[str, Callable[..., Any]] = {
    "SGD": lambda p: torch.optim.SGD(p, lr=0.05),
    "SGD with momentum": lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9),
    "Adam": torch.optim.Adam,
    "AdamW with amsgrad": lambda p: torch.optim.AdamW(p, amsgrad=True),
    "Adagrad": torch.optim.Adagrad,
    "NAdam": torch.optim.NAdam,
    "RMSprop": lambda p: torch.optim.RMSprop(p, momentum=0.9, centered=True),
}
PLANS = [BASELINE, Plan({"channels_last": {}}), Plan({"fused_optimizer": {}})]
BOTH = Plan({"channels_last": {}, "fused_optimizer": {}})


def written(bench: Workbench) -> State:
    """As a file holds it."""
    file = io.BytesIO()
    torch.save(taken_down(bench.training), file)
    file.seek(0)
    state: State = torch.load(file, weights_only=False)
    return state


def layout(bench: Workbench) -> dict[str, Any]:
    """Which objects there are, and how they lie."""
    found: dict[str, Any] = {}
    for name, parameter in parameters_of(bench.training).items():
        state = bench.optimizer.state[parameter]
        tensors = {"": parameter, "grad": parameter.grad, **state}
        found |= {
            f"{name} {key}": (id(tensor), tensor.stride(), tensor.data_ptr())
            for key, tensor in tensors.items()
            if torch.is_tensor(tensor)
        }
    return found


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_the_training_goes_on_as_the_other_did(optimizer: str) -> None:
    """Bit for bit, wherever it stood before, optimizer, RNG states and all."""
    with workbench(make_optimizer=OPTIMIZERS[optimizer]) as first:
        first.train(4)
        state = written(first)
        expected, bits = first.train(4), first.bits()
    with workbench(make_optimizer=OPTIMIZERS[optimizer]) as second:
        second.train(9)
        take_up(second.training, state)
        assert second.train(4) == expected
        assert second.bits() == bits


@pytest.mark.parametrize("plan", [*PLANS, BOTH], ids=lambda plan: plan.label)
def test_every_tensor_stays_the_object_that_it_was_and_lies_as_it_did(plan: Plan) -> None:
    with workbench() as first:
        first.train(4)
        state = written(first)
    with workbench() as second:
        second.train(2)
        second.switchboard.switch(plan)
        second.train(2)
        before = layout(second)
        take_up(second.training, state)
        assert layout(second) == before


@pytest.mark.parametrize("plan", [*PLANS, BOTH], ids=lambda plan: plan.label)
def test_taking_up_leaves_nothing_behind(plan: Plan) -> None:
    """Once the plan is off again, the training is the other's, to the last bit and stride."""
    with workbench() as first:
        first.train(4)
        state, bits = written(first), first.bits()
    with workbench() as second:
        second.train(2)
        second.switchboard.switch(plan)
        second.train(3)
        take_up(second.training, state)
        second.switchboard.switch(BASELINE)
        assert second.bits() == bits


def test_taking_up_ones_own_changes_nothing() -> None:
    with workbench() as bench:
        bench.train(3)
        bits, before = bench.bits(), layout(bench)
        take_up(bench.training, written(bench))
        assert bench.bits() == bits
        assert layout(bench) == before


@pytest.mark.parametrize("plan", PLANS, ids=lambda plan: plan.label)
def test_state_that_is_missing_is_made_and_state_too_many_goes(plan: Plan) -> None:
    """As where an optimizer was reset, or began with other settings; the strides are the parameter's."""
    with workbench() as first:
        first.train(3)
        state = written(first)
        expected = first.bits()
    with workbench(make_optimizer=lambda p: torch.optim.Adam(p, amsgrad=True)) as second:
        second.train(1)
        weight, *_, bias = parameters_of(second.training).values()
        second.switchboard.switch(plan)
        del second.optimizer.state[weight]
        second.optimizer.zero_grad()
        take_up(second.training, state)
        assert set(second.optimizer.state[bias]) == {"step", "exp_avg", "exp_avg_sq"}
        assert second.optimizer.state[weight]["exp_avg"].stride() == weight.stride()
        second.switchboard.switch(BASELINE)
        found = second.bits()
        assert all(found[name] == expected[name] for name in expected if name[0].isdigit())


def test_buffers_are_taken_up() -> None:
    with workbench() as bench:
        norm = torch.nn.BatchNorm2d(3)
        bench.model = torch.nn.Sequential(norm, bench.model)
        bench.train(2)
        assert sorted(buffers_of(bench.training)) == [
            "0.num_batches_tracked", "0.running_mean", "0.running_var",
        ]  # fmt: skip
        state = written(bench)
        mean = norm.running_mean
        assert mean is not None
        kept = mean.clone()
        bench.train(2)
        assert not torch.equal(mean, kept)
        take_up(bench.training, state)
        assert norm.running_mean is mean
        assert torch.equal(mean, kept)
        assert norm.num_batches_tracked == 2


def test_random_streams_are_taken_up() -> None:
    def drawn() -> tuple[Any, ...]:
        return torch.rand(1).item(), random.random(), float(np.random.rand())

    with workbench() as bench:
        bench.train(1)
        state = written(bench)
        expected = drawn()
        assert drawn() != expected
        take_up(bench.training, state)
        assert drawn() == expected


def test_shared_parameters_are_named_once() -> None:
    with workbench() as bench:
        bench.train(1)
        bench.optimizer.add_param_group({"params": [torch.nn.Parameter(torch.zeros(2))]})
        names = list(parameters_of(bench.training))
    assert len(names) == 7
    assert names[-1] == "optimizer 0, parameter 6"
