"""Tensors inside what modules take and return: in nested lists, tuples, dicts and dataclasses."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeVar

from .internals.other_functions import map_leaves

if TYPE_CHECKING:
    from torch import Tensor

Structure = TypeVar("Structure")


def map_tensors(torch: ModuleType, value: Structure, change: Callable[[Tensor], object]) -> Structure:
    """``value`` with ``change(tensor)`` in place of each tensor.

    Copies dataclasses, and dicts that pytree does not know: the model may keep its own.
    """

    def changed(part: Any) -> object:
        if torch.is_tensor(part):
            return change(part)
        is_record = dataclasses.is_dataclass(part) and not isinstance(part, type)
        if not is_record and not isinstance(part, dict):
            return part
        kind: Any = type(part)
        twin = kind.__new__(kind)
        if hasattr(part, "__dict__"):
            vars(twin).update(vars(part))
        if isinstance(part, dict):
            for key in part:
                twin[key] = map_tensors(torch, part[key], change)
        for field in dataclasses.fields(part) if is_record else ():
            object.__setattr__(twin, field.name, map_tensors(torch, getattr(part, field.name), change))
        return twin

    return map_leaves(torch, changed, value)


def tensors_of(torch: ModuleType, value: object) -> list[Tensor]:
    """The tensors in ``value``, in the order in which ``map_tensors`` visits them."""
    found: list[Tensor] = []

    def take(tensor: Tensor) -> Tensor:
        found.append(tensor)
        return tensor

    map_tensors(torch, value, take)
    return found
