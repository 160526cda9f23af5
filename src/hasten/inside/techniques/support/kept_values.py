"""What modules keep of a call beside its output, such as attention weights that a script reads."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator
from functools import partial
from types import ModuleType
from typing import TYPE_CHECKING, Any

from .apart import apart

if TYPE_CHECKING:
    from torch.nn import Module

_MOST = 4096  # parts of a container that is looked into
_DEEPEST = 4

Kept = dict[str, list[Any]]
"""Class and name of an attribute -> its tensors, arrays and numbers, of all modules."""


def kept_by(torch: ModuleType, root: Module) -> Kept:
    usual, found = set(vars(torch.nn.Module())), Kept()
    for module in root.modules():
        for name, value in vars(module).items():
            if name not in usual and (parts := list(_values(torch, value, _DEEPEST))):
                found.setdefault(f"{type(module).__name__}.{name}", []).extend(parts)
    return found


def which_differs(whole: Kept, cut: Kept, rounding: float) -> str:
    """The first that is there in one only, or differs in shape, kind or value; "" if none does."""
    for name in {**whole, **cut}:
        one, other = whole.get(name, []), cut.get(name, [])
        if len(one) != len(other) or any(map(partial(_differ, rounding), one, other)):
            return name
    return ""


def _differ(rounding: float, one: Any, other: Any) -> bool:
    if one is other or type(one) is not type(other):
        return one is not other
    if not hasattr(one, "element_size"):
        both_none = one != one and other != other  # not a number
        return not both_none and not math.isclose(one, other, rel_tol=rounding)
    if one.shape != other.shape or one.dtype != other.dtype or one.device != other.device:
        return True
    return apart(other, one) > rounding


def _values(torch: ModuleType, value: Any, depth: int) -> Iterator[object]:
    if isinstance(value, torch.Tensor):
        if value.layout is torch.strided and not value.is_quantized:
            yield value.detach()
    elif isinstance(value, (bool, int, float)):
        yield value
    elif type(value).__module__ == "numpy" and getattr(value, "dtype", None) is not None:
        if value.dtype.kind in "bif":
            yield torch.tensor(value, device="cpu")
    elif isinstance(value, (list, tuple, deque, dict)) and depth and len(value) <= _MOST:
        for part in value.values() if isinstance(value, dict) else value:
            yield from _values(torch, part, depth - 1)
