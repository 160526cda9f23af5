"""Calls of a layer that something else must see: a technique that stands in for it leaves them to torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode


def forward_derivative(layer: Any, given: Any) -> object:
    return torch.func.jvp(layer, (given,), (given,))


def per_sample(layer: Any, given: Any) -> object:
    return torch.func.vmap(lambda one: layer(one[None]))(given)


def scripted(layer: Any, given: Any) -> object:
    return torch.jit.script(layer)(given)


def traced(layer: Any, given: Any) -> object:
    made: Any = torch.jit.trace
    return made(layer, given, check_trace=False)(given)


def counted_operations(layer: Any, given: Any) -> object:
    with FlopCounterMode(display=False):
        return layer(given)


CALLS: tuple[Callable[[Any, Any], object], ...] = (
    forward_derivative,
    per_sample,
    scripted,
    traced,
    counted_operations,
)
