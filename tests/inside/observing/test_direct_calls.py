"""``model.forward(x)`` is followed like ``model(x)``, and does what it does without us."""

from __future__ import annotations

import copy
import functools
import inspect
import pickle
import types
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from ..watching import Watch


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(4, 8), nn.Linear(8, 3)

    def forward(self, x: Tensor, scale: float = 1.0) -> Tensor:
        found: Tensor = self.second(self.first(x).relu())
        return found * scale


class Inherits(Net):
    pass


class Extends(Net):
    def forward(self, x: Tensor, scale: float = 1.0) -> Tensor:
        return super().forward(x, scale) + 1


class Layer(nn.Linear):
    """Uses its parameters itself: no part of it is called."""

    def forward(self, x: Tensor, scale: float = 1.0) -> Tensor:
        return x @ self.weight.T * scale


class CallsItself(nn.Linear):
    def __call__(self, x: Tensor, scale: float = 1.0) -> Tensor:
        return self.forward(x + scale)


def sequential() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))


KINDS: list[Callable[[], nn.Module]] = [Net, Inherits, Extends, lambda: Layer(4, 3), sequential]
IDS = ["class", "inherited", "extended", "layer", "Sequential"]


def sgd(module: nn.Module) -> torch.optim.SGD:
    return torch.optim.SGD(module.parameters(), lr=0.1)


def train(call: Callable[..., Tensor], optimizer: torch.optim.Optimizer, steps: int = 3) -> list[float]:
    losses = []
    for step in range(steps):
        x = torch.linspace(0, 1, 20).view(5, 4) + step
        loss = call(x).square().mean()
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        losses.append(loss.item())
    return losses


@pytest.mark.attack("truth")
@pytest.mark.parametrize("make", KINDS, ids=IDS)
def test_it_is_followed_from_the_first_step_on(make: Callable[[], nn.Module], watch: Watch) -> None:
    torch.manual_seed(0)
    model = make()
    other = copy.deepcopy(model)
    before = vars(type(model)).get("forward")
    losses = train(lambda x: model.forward(x), sgd(model))
    assert not watch.training.obstacles
    assert watch.training.roots == [model]
    assert [(len(step.losses), step.forwards) for step in watch.steps] == [(1, 1)] * 3
    watch.training.seams.undo_all()
    assert vars(type(model)).get("forward") is before, "the class is as it was"
    assert train(lambda x: other.forward(x), sgd(other)) == losses


def test_classes_that_are_called_as_modules_are_as_they_were_after_a_step(watch: Watch) -> None:
    model, before = Net(), vars(Net)["forward"]
    optimizer = sgd(model)
    assert vars(Net)["forward"] is not before
    train(model, optimizer, steps=1)
    assert vars(Net)["forward"] is before
    assert "forward" not in vars(Inherits)
    train(lambda x: model.forward(x), optimizer)  # from the second step on it is not seen, and does no harm
    assert len(watch.steps) == 4


def test_one_optimizer_after_the_other_leaves_them_as_they_were(watch: Watch) -> None:
    """New ones have the addresses of those that are gone."""
    before = vars(Net)["forward"]
    for _ in range(20):
        model = Net()
        train(model, sgd(model), steps=1)
        assert vars(Net)["forward"] is before


def test_an_optimizer_for_every_step_costs_little(watch: Watch) -> None:
    """An inner loop's of a few steps, say: classes are looked at a few times only."""
    model, before = Net(), vars(Net)["forward"]
    for _ in range(20):
        train(model, sgd(model), steps=1)
    optimizer = sgd(model)
    assert vars(Net)["forward"] is before
    train(model, optimizer, steps=1)
    assert len(watch.steps) == 21


def test_what_is_called_before_there_is_an_optimizer_does_not_count(watch: Watch) -> None:
    """Lazy layers are made by ``self.forward(*inputs)`` in the book Dive into Deep Learning."""
    model = Net()
    before = vars(Net)["forward"]
    model.forward(torch.ones(2, 4))
    assert watch.training.roots == [model], "nobody knows yet that it is not trained like that"
    optimizer = sgd(model)
    assert watch.training.roots == []
    train(model, optimizer)
    assert not watch.training.obstacles
    assert watch.training.roots == [model]
    assert vars(Net)["forward"] is before, "the class is as it was"


@pytest.mark.attack("truth")
def test_it_is_followed_from_the_second_call_on_before_there_is_an_optimizer(watch: Watch) -> None:
    """Pyro makes an optimizer for each parameter, once the first gradients are there."""
    first, second = Net(), Inherits()
    optimizers: list[torch.optim.Optimizer] = []
    for _ in range(3):
        loss: Any = first.forward(torch.ones(2, 4)).sum() + second.forward(torch.ones(2, 4)).sum()
        loss.backward()
        for number, parameter in enumerate([*first.parameters(), *second.parameters()]):
            if number == len(optimizers):
                optimizers.append(torch.optim.SGD([parameter], lr=0.1))
            optimizers[number].step()
    assert not watch.training.obstacles
    assert watch.training.roots == [first, second]
    assert [step.forwards for step in watch.steps if step.backwards] == [1, 2, 2]


def test_without_an_optimizer_it_is_followed_from_the_second_call_on(watch: Watch) -> None:
    model = Net()
    for _ in range(3):
        loss: Any = model.forward(torch.ones(2, 4)).sum()
        loss.backward()
    assert not watch.training.obstacles
    assert watch.training.roots == [model]
    assert [step.forwards for step in watch.steps] == [0, 1, 1]


def test_what_has_hooks_cannot_be_followed_without_an_optimizer_either(watch: Watch) -> None:
    model, called = Net(), []
    model.register_forward_hook(lambda *_: called.append(1))
    for _ in range(2):
        loss: Any = model.forward(torch.ones(2, 4)).sum()
        loss.backward()
    assert not called
    (said,) = watch.training.obstacles
    assert "calls Net.forward(...) directly" in said


def test_it_waits_for_each_optimizer(watch: Watch) -> None:
    """A network that is trained from the tenth step on, say."""
    early, late = Net(), Layer(4, 3)
    optimizers = sgd(early), sgd(late)
    train(early, optimizers[0])
    train(lambda x: late.forward(x), optimizers[1])
    assert watch.training.roots == [early, late]


def test_hooks_that_the_script_has_are_not_called(watch: Watch) -> None:
    """``model.forward(x)`` calls none."""
    model, called = Net(), []
    optimizer = sgd(model)
    model.register_forward_hook(lambda *_: called.append(1))
    train(lambda x: model.forward(x), optimizer)
    assert not called
    (said,) = watch.training.obstacles
    assert "calls Net.forward(...) directly" in said


@pytest.mark.attack("truth")
def test_a_call_of_its_own_is_followed_and_nothing_is_called_twice(watch: Watch) -> None:
    """GPyTorch's modules call their forward themselves."""
    model, other = CallsItself(4, 3), CallsItself(4, 3)
    other.load_state_dict(model.state_dict())
    losses = train(model, sgd(model))
    assert not watch.training.obstacles
    assert watch.training.roots == [model]
    assert [step.forwards for step in watch.steps] == [1] * 3
    assert train(lambda x: nn.Linear.forward(other, x + 1.0), sgd(other)) == losses


class CallsTorchs(nn.Linear):
    def __call__(self, x: Tensor) -> Tensor:
        return super().__call__(x + 1.0)  # type: ignore[no-any-return]


def test_a_call_of_its_own_that_calls_torchs_is_not_changed(watch: Watch) -> None:
    model, other = CallsTorchs(4, 3), nn.Linear(4, 3)
    other.load_state_dict(model.state_dict())
    losses = train(model, sgd(model))
    assert watch.training.roots == [model]
    assert train(lambda x: other(x + 1.0), sgd(other)) == losses


def test_one_that_is_wrapped_in_the_instance_does_not_call_itself(watch: Watch) -> None:
    """Accelerate puts its autocast there."""
    model = Net()
    optimizer = sgd(model)
    inner = type(model).forward
    wrapped = types.MethodType(lambda self, x: inner(self, x), model)
    model.forward = wrapped  # type: ignore[method-assign]
    losses = train(lambda x: model.forward(x), optimizer)
    assert len(losses) == 3
    with torch.no_grad():
        assert model(torch.ones(2, 4)).shape == (2, 3)


def test_what_the_script_puts_in_its_place_stays(watch: Watch, monkeypatch: pytest.MonkeyPatch) -> None:
    model = Net()
    optimizer = sgd(model)

    def patched(self: Net, x: Tensor) -> Tensor:
        return self.second(self.first(x))  # type: ignore[no-any-return]

    before = vars(Net)["forward"].__wrapped__
    try:
        Net.forward = patched  # type: ignore[assignment,method-assign]
        train(model, optimizer)
        watch.training.seams.undo_all()
        assert vars(Net)["forward"] is patched
    finally:
        Net.forward = before  # type: ignore[method-assign]


def test_signatures_copies_and_pickles_are_the_scripts(watch: Watch) -> None:
    model = Net()
    optimizer = sgd(model)
    train(lambda x: model.forward(x), optimizer)
    assert list(inspect.signature(model.forward).parameters) == ["x", "scale"]
    assert "found" in inspect.getsource(Net.forward)
    for twin in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert torch.equal(twin.forward(torch.ones(2, 4)), model.forward(torch.ones(2, 4)))


def test_the_names_of_arguments_are_the_scripts_before_the_first_step(watch: Watch) -> None:
    models = Net(), Inherits(), Decorated()
    plain = [inspect.getfullargspec(model.forward) for model in models]
    optimizers = [sgd(model) for model in models]
    assert all("forward" in vars(type(model)) for model in models), "they are watched"
    found = [inspect.getfullargspec(model.forward) for model in models]
    assert found[:2] == plain[:2]
    assert (found[2].varargs, found[2].varkw) == (plain[2].varargs, plain[2].varkw)
    assert [list(inspect.signature(model.forward).parameters) for model in models] == [["x", "scale"]] * 3
    del optimizers


def logged(forward: Callable[..., Tensor]) -> Callable[..., Tensor]:
    @functools.wraps(forward)
    def called(*args: object, **kwargs: object) -> Tensor:
        return forward(*args, **kwargs)

    return called


class Decorated(Net):
    @logged
    def forward(self, x: Tensor, scale: float = 1.0) -> Tensor:
        return super().forward(x, scale)


def test_a_checkpoint_that_computes_it_again_does_so_as_before(watch: Watch) -> None:
    from torch.utils.checkpoint import checkpoint

    model = Net()
    train(lambda x: checkpoint(model.forward, x, use_reentrant=False), sgd(model))
    assert watch.training.roots == [model]
    assert not watch.training.obstacles


def test_an_evaluation_that_calls_it_is_seen(watch: Watch) -> None:
    model = Net()
    optimizer = sgd(model)
    train(lambda x: model.forward(x), optimizer, steps=1)
    with torch.no_grad():
        model.forward(torch.ones(2, 4))
    train(lambda x: model.forward(x), optimizer, steps=1)
    assert [step.evaluations for step in watch.steps] == [0, 1]
