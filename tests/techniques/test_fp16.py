"""Scaling of the loss, tested on the CPU: gradients are plain wherever the script can see them."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import nn

from hasten.inside.techniques.fp16 import Fp16
from hasten.inside.techniques.support.loss_scale import (
    FIRST,
    GROWTH_INTERVAL,
    Scale,
    leaves_of,
)
from hasten.inside.training import NotApplicable
from hasten.records.plan import BASELINE, Plan
from hasten.testing.workbench import Workbench, workbench

from .made_up import facts, machine, root

PLAN = Plan({"fp16": {}})


@pytest.fixture
def bench() -> Iterator[Workbench]:
    with workbench() as made:
        yield made


def make() -> nn.Module:
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))


def backward(model: nn.Module, factor: float = 1.0) -> None:
    (model(torch.ones(3, 4)).square().mean() * factor).backward()


def gradients(model: nn.Module) -> list[torch.Tensor]:
    return [p.grad.clone() for p in model.parameters() if p.grad is not None]


def found(bench: Workbench, on: Plan, optimizer: Callable[..., Any] = torch.optim.SGD) -> Any:
    """A fresh model, known as a root, and its optimizer."""
    bench.switchboard.switch(BASELINE)
    model = make()
    made = optimizer(model.parameters(), lr=0.1)
    model(torch.ones(3, 4))
    bench.switchboard.switch(on)
    return model, made


def both(bench: Workbench, script: Callable[[Any, Any], Any]) -> tuple[Any, Any]:
    """What a piece of script gives without and with float16."""
    return script(*found(bench, BASELINE)), script(*found(bench, PLAN))


def close(a: Any, b: Any) -> bool:
    return all(torch.allclose(x, y, rtol=2e-2, atol=1e-3) for x, y in zip(a, b, strict=True))


# ---- what a script sees
def test_gradients_are_plain_after_backward(bench: Workbench) -> None:
    def script(model: Any, optimizer: Any) -> Any:
        backward(model)
        return gradients(model)

    assert close(*both(bench, script))


def test_gradients_of_several_backward_passes_add_up(bench: Workbench) -> None:
    def script(model: Any, optimizer: Any) -> Any:
        for factor in (1.0, 0.5, 2.0):
            backward(model, factor)
        return gradients(model)

    assert close(*both(bench, script))


@pytest.mark.parametrize("clip", [nn.utils.clip_grad_norm_, nn.utils.clip_grad_value_])
def test_clipping_clips_plain_gradients(bench: Workbench, clip: Callable[..., Any]) -> None:
    def script(model: Any, optimizer: Any) -> Any:
        backward(model)
        clip(model.parameters(), 0.05)
        optimizer.step()
        return [p.detach() for p in model.parameters()]

    assert close(*both(bench, script))


def test_a_backward_pass_after_clipping_still_adds_up(bench: Workbench) -> None:
    def script(model: Any, optimizer: Any) -> Any:
        backward(model)
        nn.utils.clip_grad_norm_(model.parameters(), 0.05)
        backward(model)
        return gradients(model)

    assert close(*both(bench, script))


def test_a_vector_is_scaled_by_the_scripts_own_gradient(bench: Workbench) -> None:
    def script(model: Any, optimizer: Any) -> Any:
        torch.autograd.backward([model(torch.ones(3, 4))], [torch.full((3, 2), 0.5)])
        return gradients(model)

    assert close(*both(bench, script))


def test_gradients_asked_for_by_grad_are_plain(bench: Workbench) -> None:
    def script(model: Any, optimizer: Any) -> Any:
        return torch.autograd.grad(model(torch.ones(3, 4)).mean(), list(model.parameters()))

    assert close(*both(bench, script))


def test_two_optimizers_share_a_backward_pass(bench: Workbench) -> None:
    def script(model: Any, optimizer: Any) -> Any:
        other = torch.optim.SGD(model[2].parameters(), lr=0.1)
        first = torch.optim.SGD(model[0].parameters(), lr=0.1)
        backward(model)
        first.step()
        backward(model)
        other.step()
        return [p.detach() for p in model.parameters()]

    assert close(*both(bench, script))


def test_a_closure_is_scaled_too(bench: Workbench) -> None:
    def script(model: Any, optimizer: Any) -> Any:
        def closure() -> Any:
            optimizer.zero_grad()
            loss = model(torch.ones(3, 4)).square().mean()
            loss.backward()
            return loss

        optimizer.step(closure)
        return [p.detach() for p in model.parameters()]

    assert close(*both(bench, script))


def test_losses_are_seen_as_the_script_made_them(bench: Workbench) -> None:
    model, optimizer = found(bench, PLAN)
    loss = model(torch.ones(3, 4)).square().mean()
    loss.backward()
    optimizer.step()
    assert bench.steps[-1].losses == [loss.item()]


# ---- overflow
def overflow(model: nn.Module) -> None:
    """The loss itself is finite; its gradient, scaled, passes what float16 can hold."""
    backward(model, 1e5)


def test_a_step_that_overflowed_is_skipped_and_the_scale_backs_off(bench: Workbench) -> None:
    model, optimizer = found(bench, PLAN, torch.optim.Adam)
    before = [p.detach().clone() for p in model.parameters()]
    overflow(model)
    optimizer.step()
    assert all(torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))
    assert bench.training.kept["fp16"].value == FIRST / 2
    assert len(bench.steps) == 1
    optimizer.zero_grad()
    backward(model)
    optimizer.step()
    assert not torch.equal(before[0], next(model.parameters()))
    (proof,) = bench.switchboard.proofs()
    assert proof.remark == "1 steps skipped, whose gradients overflowed"


def test_one_overflow_among_accumulated_batches_skips_the_step(bench: Workbench) -> None:
    model, optimizer = found(bench, PLAN)
    before = next(model.parameters()).detach().clone()
    overflow(model)
    backward(model)
    optimizer.step()
    assert torch.equal(before, next(model.parameters()))


def test_a_closure_that_overflows_changes_nothing(bench: Workbench) -> None:
    model, optimizer = found(bench, PLAN)
    before = next(model.parameters()).detach().clone()
    optimizer.step(lambda: overflow(model))
    assert torch.equal(before, next(model.parameters()))


def test_an_optimizer_whose_gradients_are_well_takes_its_step(bench: Workbench) -> None:
    model, well = found(bench, PLAN)
    other = nn.Linear(4, 2)
    ill = torch.optim.SGD(other.parameters(), lr=0.1)
    other(torch.ones(3, 4))
    before = [next(m.parameters()).detach().clone() for m in (model, other)]
    backward(model)
    (other(torch.ones(3, 4)).square().mean() * 1e6).backward()
    well.step()
    ill.step()
    assert not torch.equal(before[0], next(model.parameters()))
    assert torch.equal(before[1], next(other.parameters()))


def test_a_scheduler_sees_a_skipped_step_as_a_step(bench: Workbench) -> None:
    model, optimizer = found(bench, PLAN)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
    overflow(model)
    optimizer.step()
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # torch warns of a scheduler that goes before its optimizer
        scheduler.step()


def test_the_scale_grows_after_long_and_never_falls_below_one() -> None:
    scale = Scale(2.0)
    for _ in range(GROWTH_INTERVAL):
        scale.step_taken(False)
    assert scale == Scale(4.0, 0)
    for _ in range(5):
        scale.step_taken(True)
    assert scale == Scale(1.0, 0)


# ---- where scaling would be wrong
def test_leaves_are_found() -> None:
    a, b = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
    assert {id(leaf) for leaf in leaves_of(((a * b).sum(), a.sum()))} == {id(a), id(b)}


def test_a_script_that_asks_for_other_gradients_is_not_scaled(bench: Workbench) -> None:
    def script(model: Any, optimizer: Any) -> Any:
        inputs = torch.ones(3, 4, requires_grad=True)
        model(inputs).square().mean().backward()
        return [inputs.grad]

    assert close(*both(bench, script))
    (proof,) = bench.switchboard.proofs()
    assert not proof.effective
    assert "tensors other than parameters" in proof.evidence


def test_without_an_optimizer_nothing_could_be_skipped() -> None:
    with workbench() as bench:
        bench.train(1)
        del bench.optimizer
        with pytest.raises(NotApplicable, match="no torch optimizer"):
            bench.switchboard.switch(PLAN)


def test_removal_puts_backward_back(bench: Workbench) -> None:
    before = torch.autograd.backward
    bench.train(1)
    bench.switchboard.switch(PLAN)
    assert torch.autograd.backward is not before
    bench.switchboard.switch(BASELINE)
    assert torch.autograd.backward is before
    assert not bench.optimizer._optimizer_step_pre_hooks


# ---- on paper
def test_it_applies_on_a_gpu_and_on_cpus_with_float16() -> None:
    assert Fp16.refuse(facts(roots=(root(devices=("cuda:0",)),))) == []
    assert Fp16.refuse(facts(machine(cpu_flags=("avx512_fp16",)))) == []


@pytest.mark.parametrize(
    ("other", "reason"),
    [
        ({"uses": ("autocast",)}, "already uses autocast"),
        ({"uses": ("GradScaler",)}, "already uses GradScaler"),
        ({"steps_are_evaluations": True}, "an update evaluates its closure many times"),
        ({"optimizers": ()}, "no torch optimizer"),
        ({"roots": (root(devices=("cuda:0",), dtypes=("float64",)),)}, "not all float32"),
        ({"roots": (root(),)}, "no float16 arithmetic"),
    ],
)
def test_what_it_refuses(other: dict[str, Any], reason: str) -> None:
    (said,) = Fp16.refuse(facts(**{"roots": (root(devices=("cuda:0",)),), **other}))
    assert reason in said
