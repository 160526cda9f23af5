"""Passes of an evaluation record no graph; a gradient that comes after all is what it would have been."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from hasten.inside.observing.uses import RECORDS_EVALUATIONS
from hasten.inside.techniques.graph_free_evaluation import GraphFreeEvaluation
from hasten.inside.techniques.support.recomputed import Recomputed
from hasten.records.plan import Plan
from hasten.records.whole_run import Part, WatchedRun
from hasten.testing.workbench import Workbench, normed_cnn, workbench

from ..bench.made_up import step
from .made_up import facts

PLAN = Plan({"graph_free_evaluation": {}})


class WithDict(nn.Module):
    """Returns a dict with a number in addition; draws in its forward pass, whatever its mode."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = normed_cnn()

    def forward(self, inputs: Tensor) -> dict[str, Any]:
        logits = self.inner(inputs) + 0.01 * torch.randn(len(inputs), 4)
        return {"logits": logits, "best": logits.argmax(1), "count": len(inputs)}


def loss_of_dict(model: nn.Module, inputs: Tensor, labels: Tensor) -> Tensor:
    return nn.functional.cross_entropy(model(inputs)["logits"], labels)


def watched(bench: Workbench) -> None:
    """Under the technique, after a first evaluation and a step."""
    bench.train(1)
    bench.switchboard.switch(PLAN)
    bench.model.eval()
    bench.model(torch.ones(2, 3, 8, 8))
    bench.model.train()
    bench.train(1)
    bench.model.eval()


def counted(bench: Workbench) -> tuple[int, int]:
    """Passes without a graph, and those of them that were run again."""
    words = bench.switchboard.proofs()[0].evidence.replace(",", "").split()
    return int(words[0]), int(words[words.index("were") - 1])


def gradients(model: nn.Module, act: Callable[[], None]) -> list[Tensor]:
    """Of all parameters: each gets one."""
    model.zero_grad(set_to_none=True)
    act()
    found = [p.grad.clone() for p in model.parameters() if p.grad is not None]
    assert len(found) == len(list(model.parameters()))
    return found


# ---- what the script sees
def test_what_the_model_returns_is_the_same_and_nothing_is_kept_for_it() -> None:
    inputs = torch.rand(4, 3, 8, 8)
    with workbench(make_model=normed_cnn) as bench:
        watched(bench)
        kept: list[Tensor] = []

        def keep(tensor: Tensor) -> Tensor:
            kept.append(tensor)
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
            ours = bench.model(inputs)
        of_the_model = {id(p) for p in bench.model.parameters()} | {id(inputs)}
        assert all(id(tensor) in of_the_model for tensor in kept)
        assert counted(bench) == (1, 0)
        bench.model.train()
        bench.switchboard.switch(Plan())
        bench.model.eval()
        theirs = bench.model(inputs)
    assert torch.equal(ours, theirs)
    assert ours.requires_grad
    assert theirs.requires_grad
    assert not ours.is_leaf


def test_a_dict_comes_back_as_it_is() -> None:
    with workbench(make_model=WithDict, loss_of=loss_of_dict) as bench:
        watched(bench)
        output = bench.model(torch.rand(4, 3, 8, 8))
        assert counted(bench) == (1, 0)
        assert list(output) == ["logits", "best", "count"]
        assert output["logits"].requires_grad
        assert not output["best"].requires_grad
        assert output["count"] == 4


# ---- a gradient that comes after all
def test_gradients_are_what_they_would_have_been_and_it_stays_off() -> None:
    inputs = torch.rand(4, 3, 8, 8)
    with workbench(make_model=WithDict, loss_of=loss_of_dict) as bench:
        watched(bench)

        def act() -> None:
            torch.manual_seed(3)
            output = bench.model(inputs)
            torch.rand(7)  # the streams have moved when the gradient comes
            output["logits"].square().sum().backward()

        ours = gradients(bench.model, act)
        after = torch.rand(1)
        assert counted(bench) == (1, 1)
        assert "a backward pass came" in bench.switchboard.proofs()[0].evidence
        assert not bench.switchboard.proofs()[0].effective
        theirs = gradients(bench.model, act)
        assert counted(bench) == (1, 1)
        assert torch.equal(after, torch.rand(1))
    assert all(map(torch.equal, ours, theirs))


@pytest.mark.parametrize("twice", [False, True])
def test_gradients_by_autograd_grad_of_an_input(twice: bool) -> None:
    """As an attack on the model asks for them; ``twice``: and those of their norm."""
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
    given = torch.rand(5, 3)

    def asked(call: Callable[[Tensor], Any]) -> list[Tensor]:
        inputs = (given * 1.0).requires_grad_()
        output = call(inputs * 2.0)
        (gradient,) = torch.autograd.grad(output.square().sum(), inputs, create_graph=twice)
        return [gradient, *(torch.autograd.grad(gradient.norm(), [*model.parameters()][:3]) if twice else ())]

    def recomputed(inputs: Tensor) -> Any:
        leaves = [inputs, *model.parameters()]
        return Recomputed(torch)(lambda: model(inputs), leaves, lambda: None)

    for ours, theirs in zip(asked(recomputed), asked(model), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-5 if twice else 0, atol=1e-6 if twice else 0)


def test_weights_that_were_written_into_meanwhile_raise_autograds_error() -> None:
    with workbench(make_model=normed_cnn) as bench:
        watched(bench)
        output = bench.model(torch.rand(4, 3, 8, 8))
        bench.optimizer.step()
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            output.sum().backward()


def test_a_pass_under_the_scripts_autocast_is_run_again_under_it() -> None:
    model = nn.Linear(8, 8)
    inputs = torch.rand(4, 8)

    def asked(call: Callable[[], Any]) -> list[Tensor]:
        def act() -> None:
            with torch.autocast("cpu", dtype=torch.bfloat16):
                output = call()
            output.float().square().sum().backward()

        return gradients(model, act)

    leaves = [inputs, *model.parameters()]
    ours = asked(lambda: Recomputed(torch)(lambda: model(inputs), leaves, lambda: None))
    theirs = asked(lambda: model(inputs))
    assert all(map(torch.equal, ours, theirs))


def test_a_pass_is_run_again_in_the_mode_it_was_run_in() -> None:
    inputs = torch.rand(4, 3, 8, 8)
    with workbench(make_model=normed_cnn) as bench:
        watched(bench)

        def act() -> None:
            bench.model.eval()
            loss = bench.model(inputs).square().sum()
            bench.model.train()
            loss.backward()
            assert all(module.training for module in bench.model.modules())

        ours = gradients(bench.model, act)
        assert counted(bench) == (1, 1)
        theirs = gradients(bench.model, act)
    assert all(map(torch.equal, ours, theirs))


def test_weights_lowered_without_a_graph_are_not_taken_for_a_training_pass() -> None:
    """Autocast keeps them until the script leaves it."""
    model = nn.Linear(8, 8)
    inputs = torch.rand(4, 8)

    def act() -> None:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            Recomputed(torch)(lambda: model(inputs), [inputs, *model.parameters()], lambda: None)
            output = model(inputs)
        output.float().square().sum().backward()

    gradients(model, act)


class Turned(nn.Module):
    """Returns a view."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = normed_cnn()

    def forward(self, inputs: Tensor) -> Tensor:
        output: Tensor = self.inner(inputs)
        return output.t()


def loss_of_turned(model: nn.Module, inputs: Tensor, labels: Tensor) -> Tensor:
    return nn.functional.cross_entropy(model(inputs).t(), labels)


def test_the_script_may_write_into_a_view_that_comes_back() -> None:
    with workbench(make_model=Turned, loss_of=loss_of_turned) as bench:
        watched(bench)
        output = bench.model(torch.rand(4, 3, 8, 8))
        assert counted(bench) == (1, 0)
        expected = output.detach() * 2.0
        assert torch.equal(output.mul_(2.0), expected)


class Asking(nn.Module):
    """What it does to its own graph cannot be done without one."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.inner, self.how = normed_cnn(), how

    def forward(self, inputs: Tensor) -> Tensor:
        inputs = inputs + 0.01 * torch.rand(len(inputs), 1, 1, 1)
        output: Any = self.inner(inputs)
        if self.how == "register_hook":
            output.register_hook(lambda gradient: None)
        elif self.how == "retain_grad":
            output.retain_grad()
        else:
            given = inputs.detach().requires_grad_()
            (slope,) = torch.autograd.grad(self.inner(given).sum(), given, create_graph=True)
            output = output + slope.mean()
        return output  # type: ignore[no-any-return]


# ---- what is left alone
@pytest.mark.parametrize(
    "how",
    ["register_hook", *(pytest.param(h, marks=pytest.mark.thorough) for h in ("retain_grad", "grad"))],
)
def test_a_pass_that_fails_without_a_graph_is_run_with_one(how: str) -> None:
    inputs = torch.rand(4, 3, 8, 8)
    with workbench(make_model=lambda: Asking(how)) as bench:
        watched(bench)
        torch.manual_seed(3)
        ours = bench.model(inputs)
        after = torch.rand(1)
        assert counted(bench) == (0, 0)
        assert "without a graph a pass fails with RuntimeError" in bench.switchboard.proofs()[0].evidence
        torch.manual_seed(3)
        theirs = bench.model(inputs)
        assert torch.equal(after, torch.rand(1))
    assert torch.equal(ours, theirs)


def test_the_first_evaluation_is_only_watched() -> None:
    with workbench(make_model=normed_cnn) as bench:
        bench.train(1)
        bench.switchboard.switch(PLAN)
        bench.model.eval()
        for _ in range(3):
            bench.model(torch.ones(2, 3, 8, 8))
        assert counted(bench) == (0, 0)


def test_a_model_that_trains_in_eval_mode_is_left_alone() -> None:
    """As with batch norm that is frozen."""
    with workbench(make_model=normed_cnn) as bench:
        bench.train(1)
        bench.switchboard.switch(PLAN)
        bench.model.eval()
        bench.train(2)
        bench.model.train()
        bench.train(1)
        bench.model.eval()
        bench.model(torch.ones(2, 3, 8, 8))
        assert counted(bench) == (0, 0)
        assert "a backward pass came" in bench.switchboard.proofs()[0].evidence


class Leaving(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = normed_cnn()
        self.last: list[Tensor] = []

    def forward(self, inputs: Tensor) -> Tensor:
        output: Tensor = self.inner(inputs)
        self.last = [output.square().mean()]
        return output


class LeavingInAQueue(Leaving):
    def __init__(self) -> None:
        super().__init__()
        self.lasts: deque[Tensor] = deque(maxlen=3)

    def forward(self, inputs: Tensor) -> Tensor:
        output: Tensor = self.inner(inputs)
        self.lasts.append(output.square().mean())
        return output


class Holder:
    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor


class Holding(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = normed_cnn()

    def forward(self, inputs: Tensor) -> tuple[Tensor, Holder]:
        output = self.inner(inputs)
        return output, Holder(output)


def loss_of_first(model: nn.Module, inputs: Tensor, labels: Tensor) -> Tensor:
    return nn.functional.cross_entropy(model(inputs)[0], labels)


@pytest.mark.parametrize(
    ("make", "loss_of", "reason"),
    [
        pytest.param(Leaving, None, "keeps a tensor with a graph in Leaving.last", id="an attribute"),
        pytest.param(
            LeavingInAQueue, None, "keeps a tensor with a graph in LeavingInAQueue.lasts", id="a queue"
        ),
        pytest.param(Holding, loss_of_first, "returns a Holder", id="an object of its own"),
    ],
)
def test_a_model_whose_tensors_may_get_away_is_left_alone(make: Any, loss_of: Any, reason: str) -> None:
    with workbench(make_model=make, **({"loss_of": loss_of} if loss_of else {})) as bench:
        watched(bench)
        bench.model(torch.ones(2, 3, 8, 8))
        assert counted(bench) == (0, 0)
        assert reason in bench.switchboard.proofs()[0].evidence


@pytest.mark.parametrize("part", ["a hook", "dropout that stays on"])
def test_a_pass_that_somebody_looks_into_is_left_alone(part: str) -> None:
    with workbench(make_model=normed_cnn) as bench:
        watched(bench)
        if part == "a hook":
            bench.model.get_submodule("0").register_forward_hook(lambda module, given, output: None)
        else:
            bench.model.get_submodule("1").train()
        bench.model(torch.ones(2, 3, 8, 8))
        assert counted(bench) == (0, 0)


# ---- on paper
def test_what_it_refuses() -> None:
    assert GraphFreeEvaluation.refuse(facts(roots=())) == ["no module is called in its training steps"]
    run = WatchedRun(9.0, ended=False, parts=(Part("evaluation", 1.0, 2),))
    (reason,) = GraphFreeEvaluation.refuse(facts(run=run))
    assert "evaluates without gradients already" in reason
    assert GraphFreeEvaluation.refuse(facts(run=run, uses=(RECORDS_EVALUATIONS,))) == []
    assert GraphFreeEvaluation.refuse(facts()) == []  # in a run under a plan, which is not watched


def test_where_no_evaluation_was_seen_it_says_so() -> None:
    run = WatchedRun(9.0, ended=False, parts=(Part("steps", 9.0, 30),))
    steps = (step(),) * 30
    (reason,) = GraphFreeEvaluation.refuse(facts(run=run, steps=steps))
    assert reason == "no evaluation was seen yet, with gradients or without"
    assert GraphFreeEvaluation.refuse(facts(run=run, steps=steps, uses=(RECORDS_EVALUATIONS,))) == []
