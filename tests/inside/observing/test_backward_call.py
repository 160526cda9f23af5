"""A call of backward() means the same wherever its arguments stand."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch

from hasten.inside.observing.backward_call import (
    OF_AUTOGRAD,
    OF_GRAD,
    OF_TENSOR,
    read_call,
)

LOSS = torch.ones(())
FUNCTIONS: dict[str, tuple[Callable[..., Any], Sequence[str]]] = {
    "Tensor.backward": (torch.Tensor.backward, OF_TENSOR),
    "autograd.backward": (torch.autograd.backward, OF_AUTOGRAD),
    "autograd.grad": (torch.autograd.grad, OF_GRAD),
}


@pytest.mark.parametrize("function", FUNCTIONS)
def test_arguments_stand_where_torch_has_them(function: str) -> None:
    torchs, ours = FUNCTIONS[function]
    assert tuple(inspect.signature(torchs).parameters)[: len(ours)] == tuple(ours)


@pytest.mark.attack("truth")
@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize(("retain", "create"), list(itertools.product([None, False, True], [False, True])))
def test_it_is_the_same_by_place_and_by_name(function: str, retain: bool | None, create: bool) -> None:
    _, names = FUNCTIONS[function]
    given = {**dict.fromkeys(names), names[0]: LOSS, "retain_graph": retain, "create_graph": create}
    for by_place in range(len(names) + 1):
        args = [given[name] for name in names[:by_place]]
        call = read_call(names, args, {name: given[name] for name in names[by_place:]})
        assert call.given is LOSS
        assert (call.creates_graph, call.keeps_graph) == (create, create or bool(retain))


@pytest.mark.parametrize("function", FUNCTIONS)
def test_what_is_not_said_is_not_asked_for(function: str) -> None:
    call = read_call(FUNCTIONS[function][1], [LOSS], {})
    assert (call.creates_graph, call.keeps_graph) == (False, False)


def test_a_call_that_torch_will_refuse_is_read_all_the_same() -> None:
    assert read_call(OF_AUTOGRAD, [], {}).given == ()
