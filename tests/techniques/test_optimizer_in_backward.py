"""The same updates, earlier; and none of them where the script does something in between."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from hasten.inside.techniques.base import SAVES_MEMORY
from hasten.inside.techniques.optimizer_in_backward import OptimizerInBackward
from hasten.inside.training import NotApplicable
from hasten.records.observation import Step
from hasten.records.plan import BASELINE, Plan
from hasten.records.reasons import WhyNot
from hasten.testing.workbench import Workbench, workbench

from .made_up import facts, optimizer

PLAN = Plan({"optimizer_in_backward": {}})


@pytest.mark.parametrize("kind", [torch.optim.Adam, torch.optim.SGD, torch.optim.RMSprop])
def test_losses_are_the_same_to_the_last_bit(kind: Callable[..., Any]) -> None:
    with workbench(make_optimizer=lambda p: kind(p, lr=1e-3)) as bench:
        bench.train(2)
        start = bench.snapshot()
        plain = bench.train(6)
        bits = bench.bits()
        bench.restore(start)
        bench.switchboard.switch(PLAN)
        assert bench.train(6) == plain
        assert len(bench.steps) == 14  # a step is still a step of the script's
        (proof,) = bench.switchboard.proofs()
        assert proof.evidence == "30 parameters updated during backward passes"
        values = {key: value for key, value in bits.items() if "." in key}
        after = bench.bits()
        assert all(value[0] == after[key][0] for key, value in values.items())


def test_frozen_parameters_of_the_optimizer_wait_for_their_thawing() -> None:
    """Fine-tuning scripts often hand over all of a model's parameters, of which a few are trained."""

    def trained(plan: Plan) -> tuple[list[float], list[float]]:
        with workbench(make_optimizer=lambda p: torch.optim.Adam(p, lr=1e-3)) as bench:
            first = next(iter(bench.model.parameters()))
            first.requires_grad_(False)
            bench.switchboard.switch(plan)
            frozen = bench.train(4)
            if plan:
                assert all(proof.effective for proof in bench.switchboard.proofs())
            first.requires_grad_(True)
            return frozen, bench.train(4)

    assert trained(PLAN) == trained(BASELINE)


def test_gradients_are_gone_when_backward_ends() -> None:
    with workbench() as bench:
        bench.train(1)
        bench.switchboard.switch(PLAN)
        bench.train(1)
        bench.model(torch.ones(1, 3, 8, 8)).sum().backward()
        assert all(p.grad is None for p in bench.model.parameters())
        bench.switchboard.switch(BASELINE)


def one_step(bench: Workbench, between: Callable[[], Any] = lambda: None, backwards: int = 1) -> None:
    bench.optimizer.zero_grad()
    for _ in range(backwards):
        bench.model(torch.ones(1, 3, 8, 8)).sum().backward()
    between()
    bench.optimizer.step()


def clipped(bench: Workbench) -> None:
    nn.utils.clip_grad_norm_(bench.model.parameters(), 1e-3)


def slower(bench: Workbench) -> None:
    bench.optimizer.param_groups[0]["lr"] *= 0.5


@pytest.mark.parametrize(
    ("between", "backwards", "reason"),
    [
        (clipped, 1, "changes gradients before the step"),
        (slower, 1, "learning rate is set between"),
        (lambda _: None, 2, "several backward passes"),
    ],
)
def test_what_happens_in_between_keeps_it_from_starting(
    between: Callable[[Workbench], Any], backwards: int, reason: str
) -> None:
    found = []
    for on in (BASELINE, PLAN):
        with workbench() as bench:
            bench.train(1)
            bench.switchboard.switch(on)
            for _ in range(3):
                one_step(bench, lambda bench=bench: between(bench), backwards)  # type: ignore[misc]
            found.append([p.detach().clone() for p in bench.model.parameters()])
            proofs = bench.switchboard.proofs()
    assert not proofs[0].effective
    assert reason in proofs[0].evidence
    assert all(torch.equal(a, b) for a, b in zip(*found, strict=True))


def test_several_optimizers_are_refused() -> None:
    with workbench() as bench:
        other = torch.optim.SGD([nn.Parameter(torch.zeros(2))])
        with pytest.raises(NotApplicable, match="several optimizers"):
            bench.switchboard.switch(PLAN)
        del other


def step(backwards: int) -> Step:
    return Step(0.1, 8, 0, 0, {}, (), (0, 1, backwards))


@pytest.mark.parametrize(
    ("other", "reason"),
    [
        ({"optimizers": ()}, "no torch optimizer"),
        ({"uses": ("clipping",)}, "uses clipping"),
        ({"uses": ("GradScaler",)}, "uses GradScaler"),
        ({"steps": (step(1), step(2))}, "not exactly one backward pass"),
        ({"optimizers": (optimizer(), optimizer())}, "several optimizers"),
        ({"optimizers": (optimizer(name="LBFGS"),)}, "LBFGS"),
    ],
)
def test_what_it_refuses(other: dict[str, Any], reason: str) -> None:
    (said,) = OptimizerInBackward.refuse(facts(**other))
    assert reason in said


def test_it_is_for_memory_and_not_tried_for_speed() -> None:
    from hasten.tuning.candidates import choose

    assert OptimizerInBackward.refuse(facts()) == []
    refused = {row.technique: row.reasons for row in choose(facts(), [], "close")[1]}
    assert refused["optimizer_in_backward"] == (WhyNot("said", SAVES_MEMORY),)
