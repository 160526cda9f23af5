"""Calls of a model, in its training, that leave nothing behind in it."""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from types import ModuleType
from typing import TYPE_CHECKING

from ...observing.batches import tensors_in
from ...seams import Seams

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module

_CONTAINERS = (list, dict, set, deque)


@contextmanager
def harmless(torch: ModuleType, root: Module) -> Iterator[None]:
    """Calls of ``root`` leave nothing behind; dropout and autocast are off."""
    from ...distributed.aligned import quiet_recurrent, without_dropout  # it imports torch

    seams = Seams()
    device = next((p.device.type for p in root.parameters()), "cpu")
    with ExitStack() as stack:
        stack.callback(seams.undo_all)
        stack.enter_context(_kept_as_it_is(root))
        stack.enter_context(torch.autocast(device, enabled=False))
        without_dropout(seams)
        stack.callback(quiet_recurrent(root))
        yield


@contextmanager
def _kept_as_it_is(root: Module) -> Iterator[None]:
    """Attributes of all modules and buffers are put back, in the same tensors."""
    buffers = [(buffer, buffer.detach().clone()) for buffer in root.buffers()]
    try:
        with attributes_put_back(root):
            yield
    finally:
        for buffer, value in buffers:
            buffer.data.copy_(value)


@contextmanager
def attributes_put_back(root: Module) -> Iterator[None]:
    """Attributes of all modules, and what lists and similar of them hold, are put back."""
    modules = list(root.modules())
    attributes = [dict(vars(module)) for module in modules]
    held = [value for own in attributes for value in own.values() if type(value) in _CONTAINERS]
    contents = [(value, copy.copy(value)) for value in held]
    try:
        yield
    finally:
        for module, own in zip(modules, attributes, strict=True):
            vars(module).clear()
            vars(module).update(own)
        for container, content in contents:
            container.clear()
            if isinstance(container, (list, deque)):
                container.extend(content)
            else:
                container.update(content)


def graphs_of(root: Module) -> list[tuple[str, Tensor]]:
    """The tensors with a graph that modules keep, in containers too, such as terms of a loss, each
    with its attribute's name.
    """
    return [
        (f"{type(module).__name__}.{name}", tensor)
        for module in root.modules()
        for name, value in vars(module).items()
        for tensor in tensors_in(list(value) if isinstance(value, (deque, set)) else value)
        if tensor.grad_fn is not None
    ]
