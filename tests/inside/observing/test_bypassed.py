"""Who calls ``forward`` past a module with hooks, where no part of it is called either, is found and named.

Without hooks it is sent through the module (test_direct_calls.py).
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from ..watching import Watch


class Layer(nn.Linear):
    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(x @ self.weight.T + self.bias)


class Inherits(nn.Linear):
    pass


class Calls(nn.Linear):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x).relu()


class Outer(nn.Module):
    """Uses the parameters of a layer by hand."""

    def __init__(self, ins: int, outs: int) -> None:
        super().__init__()
        self.layer = nn.Linear(ins, outs)

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.linear(x, self.layer.weight, self.layer.bias)

    def score(self, x: Tensor) -> Tensor:
        return (x @ self.layer.weight.T).square().mean()


def train(loss_of: Callable[[Tensor], Tensor], optimizer: torch.optim.Optimizer, steps: int = 3) -> None:
    for _ in range(steps):
        optimizer.zero_grad()
        loss_of(torch.ones(5, 4)).square().mean().backward()  # type: ignore[no-untyped-call]
        optimizer.step()


def sgd(module: nn.Module) -> torch.optim.SGD:
    return torch.optim.SGD(module.parameters(), lr=0.1)


@pytest.mark.attack("truth")
@pytest.mark.parametrize("kind", [Layer, Inherits, Calls, Outer])
def test_a_forward_that_is_called_itself_is_named(kind: type[nn.Module], watch: Watch) -> None:
    model, before = kind(4, 3), vars(kind).get("forward")
    model.register_forward_hook(lambda *_: None)
    train(lambda x: model.forward(x), sgd(model))
    (said,) = watch.training.obstacles
    assert "test_bypassed.py:" in said
    assert f"calls {kind.__name__}.forward(...) directly, not {kind.__name__}.__call__" in said
    assert vars(kind).get("forward") is before, "the class is as it was"


@pytest.mark.attack("truth")
@pytest.mark.parametrize("kind", [Layer, Inherits, Calls, Outer])
def test_a_module_that_is_called_is_none(kind: type[nn.Module], watch: Watch) -> None:
    model = kind(4, 3)
    train(model, sgd(model))
    assert not watch.training.obstacles
    assert watch.training.roots == [model]


def test_parameters_that_a_method_uses_are_none(watch: Watch) -> None:
    model = Outer(4, 3)
    train(model.score, sgd(model))
    assert not watch.training.obstacles


def test_called_in_an_evaluation_alone_it_is_none(watch: Watch) -> None:
    model = Outer(4, 3)
    optimizer = sgd(model)
    train(model.score, optimizer)
    with torch.no_grad():
        model.forward(torch.ones(2, 4))
        model(torch.ones(2, 4))
    train(model.score, optimizer)
    assert not watch.training.obstacles


def test_without_a_module_a_loaders_batches_are_those_that_train(watch: Watch) -> None:
    weight = torch.zeros(4, requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=0.1)
    for (x,) in DataLoader(TensorDataset(torch.ones(20, 4)), batch_size=10):
        optimizer.zero_grad()
        (x @ weight).mean().backward()
        optimizer.step()
    assert [step.samples for step in watch.steps] == [10, 10]
    assert [loader.training for loader in watch.hooks.loaders.records()] == [True]
    assert not watch.training.obstacles
