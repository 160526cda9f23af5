"""The same updates, earlier; and none of them where the script does something in between."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from hasten.inside.techniques.base import SAVES_MEMORY
from hasten.inside.techniques.optimizer_in_backward import GradientsGone, OptimizerInBackward
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
        bench.train(2)
        bench.optimizer.zero_grad()
        bench.model(torch.ones(1, 3, 8, 8)).sum().backward()
        bench.switchboard.switch(BASELINE)
        assert all(p.grad is None for p in bench.model.parameters())


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


def norm_logged(bench: Workbench) -> None:
    assert all(float(p.grad.norm()) >= 0 for p in bench.model.parameters() if p.grad is not None)


def noise_added(bench: Workbench) -> None:
    for parameter in bench.model.parameters():
        assert parameter.grad is not None
        parameter.grad.add_(1e-3)


def unscaled(bench: Workbench) -> None:
    scaler = torch.amp.GradScaler("cpu")
    scaler.scale(torch.ones(()))  # which makes its scale
    scaler.unscale_(bench.optimizer)


def sent_through_numpy(bench: Workbench) -> None:
    """As a script does that averages gradients over processes by itself."""
    for parameter in bench.model.parameters():
        assert parameter.grad is not None
        parameter.grad = torch.from_numpy(parameter.grad.numpy().copy())


def thrown_away(bench: Workbench) -> None:
    bench.optimizer.zero_grad()


@pytest.mark.parametrize(
    ("between", "backwards", "reason"),
    [
        (clipped, 1, "reads gradients after a backward pass, at test_optimizer_in_backward.py:"),
        (norm_logged, 1, "reads gradients after a backward pass, at test_optimizer_in_backward.py:"),
        (noise_added, 1, "reads gradients after a backward pass"),
        (sent_through_numpy, 1, "reads gradients after a backward pass"),
        (unscaled, 1, "reads gradients after a backward pass"),
        (thrown_away, 1, "takes gradients away that no step has used"),
        (slower, 1, "learning rate, or another setting, is changed between"),
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


@pytest.mark.parametrize(
    ("between", "backwards", "reason"),
    [
        (norm_logged, 1, "reads gradients after a backward pass"),
        (clipped, 1, "reads gradients after a backward pass"),
        (thrown_away, 1, "takes gradients away"),
        (slower, 1, "learning rate, or another setting, is changed between"),
        (lambda _: None, 2, "several backward passes"),
    ],
)
def test_what_comes_when_gradients_are_gone_stops_the_script(
    between: Callable[[Workbench], Any], backwards: int, reason: str
) -> None:
    """Nothing can bring them back, and without them the script would train another model."""
    with workbench() as bench:
        bench.train(1)
        bench.switchboard.switch(PLAN)
        for _ in range(3):
            one_step(bench)
        with pytest.raises(GradientsGone, match=f"{reason}.* Train without it: hasten run --without"):
            one_step(bench, lambda: between(bench), backwards)
        (proof,) = bench.switchboard.proofs()
        assert not proof.effective


def test_what_is_read_after_the_step_keeps_it_from_starting() -> None:
    with workbench() as bench:
        bench.train(1)
        bench.switchboard.switch(PLAN)
        for _ in range(3):
            one_step(bench)
            norm_logged(bench)
        (proof,) = bench.switchboard.proofs()
    assert not proof.effective
    assert "reads gradients after a backward pass" in proof.evidence


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("x = 1\ng = p.grad\n", 2),
        ("total = sum(p.grad.norm() for p in ps)", 1),
        ("\nnn.utils.clip_grad_norm_(ps, 1.0)", 2),
        ("clip_grad_value_(ps, 1.0)", 1),
        ("scaler.unscale_(optimizer)", 1),
        ("g = torch.autograd.grad(y, x)", 0),
        ("p.grad = None", 0),
        ("not Python (", 0),
    ],
)
def test_files_of_the_script_are_read(tmp_path: Path, text: str, line: int) -> None:
    file = tmp_path / "train.py"
    file.write_text(text)
    with workbench() as bench:
        bench.train(1)
        bench.training.own_files = lambda: [str(tmp_path / "gone.py"), str(file)]
        try:
            bench.switchboard.switch(PLAN)
            said = ""
        except NotApplicable as error:
            said = str(error)
    assert said == (f"the script reads gradients itself, at train.py:{line}" if line else "")


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
        ({"steps_are_evaluations": True}, "an update evaluates its closure many times"),
        ({"steps": (step(1), step(2))}, "not exactly one backward pass"),
        ({"optimizers": (optimizer(), optimizer())}, "several optimizers"),
        ({"optimizers": (optimizer(why_not_merged="LBFGS may look at a group"),)}, "one parameter at a time"),
    ],
)
def test_what_it_refuses(other: dict[str, Any], reason: str) -> None:
    (said,) = OptimizerInBackward.refuse(facts(**other))
    assert reason in said


def test_it_is_for_memory_and_not_tried_for_speed() -> None:
    from hasten.tuning.candidates import choose

    assert OptimizerInBackward.refuse(facts()) == []
    refused = {row.technique: row.reasons for row in choose(facts(), [], "close")[1]}
    assert refused["optimizer_in_backward"] == (WhyNot("by name", SAVES_MEMORY),)
