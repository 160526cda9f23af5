"""What techniques are handed: the parts that are alive, and wrappers around the forward pass."""

from __future__ import annotations

import gc
from typing import Any

import pytest
import torch

from hasten.inside.seams import Call, Seams
from hasten.inside.training import Training


@pytest.fixture
def training() -> Training:
    return Training(torch, Seams(), available_bytes=0)


def test_roots_and_optimizers_are_listed_in_their_order(training: Training) -> None:
    first, second = torch.nn.Linear(1, 1), torch.nn.Linear(1, 1)
    optimizers = [torch.optim.SGD(module.parameters()) for module in (first, second)]
    for root, optimizer in zip((first, second), optimizers, strict=True):
        training.add_root(root)
        training.add_optimizer(optimizer)
    assert training.roots == [first, second]
    assert training.optimizers == optimizers


def test_an_optimizer_is_listed_once_and_told_once(training: Training) -> None:
    optimizer = torch.optim.SGD(torch.nn.Linear(1, 1).parameters())
    training.add_optimizer(optimizer)
    assert training.changed
    training.changed = False
    training.add_optimizer(optimizer)
    assert training.optimizers == [optimizer]
    assert not training.changed


def test_no_two_optimizers_have_the_same_serial(training: Training) -> None:
    model = torch.nn.Linear(1, 1)
    first, second = (torch.optim.SGD(model.parameters()) for _ in range(2))
    assert [training.serial_of(training.number_of(one)) for one in (first, second)] == [0, 1]
    del first
    gc.collect()
    third = torch.optim.SGD(model.parameters())
    assert [training.serial_of(training.number_of(one)) for one in (second, third)] == [1, 2]
    assert training.serial_of(-1) == -1


def test_what_came_since_is_told(training: Training) -> None:
    model, other = torch.nn.Linear(1, 1), torch.nn.Linear(1, 1)
    optimizers = [torch.optim.SGD(one.parameters()) for one in (model, other)]
    training.add_root(model)
    training.add_optimizer(optimizers[0])
    before = training.roots_added, training.optimizers_added
    assert training.came_since(*before) == ([], [])
    training.add_root(other)
    training.add_optimizer(optimizers[1])
    assert training.came_since(*before) == ([other], [optimizers[1]])
    assert training.came_since(0, 0) == ([model, other], optimizers)


def test_a_root_is_a_change(training: Training) -> None:
    root = torch.nn.Linear(1, 1)
    training.add_root(root)
    assert training.changed


def test_what_the_script_lets_go_of_is_listed_no_more(training: Training) -> None:
    kept = torch.nn.Linear(1, 1)
    training.add_root(torch.nn.Linear(1, 1))
    training.add_root(kept)
    gc.collect()
    assert training.roots == [kept]


def test_the_wrapper_installed_last_is_the_outermost(training: Training) -> None:
    order: list[str] = []

    def noting(name: str) -> Any:
        def wrapper(root: Any, call: Call, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            order.append(f"{name} begins")
            output = call(*args, **kwargs)
            order.append(f"{name} ends")
            return output

        return wrapper

    training.forward_wrappers = {"first": noting("first"), "second": noting("second")}
    root = torch.nn.Linear(1, 1)
    assert training.forward(root, lambda a, b: a + b, (1,), {"b": 2}) == 3
    assert order == ["second begins", "first begins", "first ends", "second ends"]


def test_a_wrapper_is_told_the_root_and_may_change_inputs_and_output(training: Training) -> None:
    root = torch.nn.Linear(1, 1)

    def wrapper(given: Any, call: Call, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        assert given is root
        output: Any = call(*(2 * value for value in args), **kwargs)
        return -output

    training.forward_wrappers["test"] = wrapper
    assert training.forward(root, lambda x, y: x + y, (3,), {"y": 1}) == -7


def test_without_wrappers_the_call_is_the_scripts_own(training: Training) -> None:
    root = torch.nn.Linear(1, 1)
    called = training.forward(root, lambda *args, **kwargs: (args, kwargs), (1,), {"b": 2})
    assert called == ((1,), {"b": 2})


def test_techniques_may_act_between_steps_and_leave(training: Training) -> None:
    acted: list[int] = []

    def act() -> None:
        acted.append(len(acted))
        if len(acted) == 2:
            del training.after_steps["some"]

    training.after_steps["some"] = act
    for _ in range(4):
        training.step_ended()
    assert acted == [0, 1]
    training.after_steps["some"] = act
    training.forget()
    training.step_ended()
    assert acted == [0, 1]


def test_a_wrapper_may_be_put_beneath_all_but_the_innermost(training: Training) -> None:
    def wrapper(root: Any, call: Call, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return call(*args, **kwargs)

    training.forward_wrappers["outer"] = wrapper
    training.wrap_inside("inside", wrapper)
    assert list(training.forward_wrappers) == ["inside", "outer"]
    training.wrap_innermost("innermost", wrapper)
    training.wrap_inside("inside too", wrapper)
    assert list(training.forward_wrappers) == ["innermost", "inside too", "inside", "outer"]
    del training.forward_wrappers["innermost"]
    training.wrap_inside("late", wrapper)
    assert list(training.forward_wrappers) == ["late", "inside too", "inside", "outer"]
