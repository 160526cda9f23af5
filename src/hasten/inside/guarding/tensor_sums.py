"""How far two tensors are apart, as sums that can be added up over tensors."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from types import ModuleType
from typing import TYPE_CHECKING

from ...records import messages

if TYPE_CHECKING:
    from torch import Tensor

_PART = 2**17  # numbers


def sums_of(
    torch: ModuleType, ours: Tensor | None, reference: Tensor, explained: float = 0.0
) -> messages.Sums:
    """``explained``: by so much the squares may differ without counting."""
    r = reference.detach()
    c = torch.zeros_like(r) if ours is None else ours.detach().to(r.device)
    squares, products, apart = total([_sums(torch, *pair) for pair in _in_parts(torch, c, r)])
    return [squares, products, 0.0 if apart <= explained else apart]


def _sums(torch: ModuleType, ours: Tensor, reference: Tensor) -> messages.Sums:
    r, c = reference.double(), ours.double()
    apart = float((c - r).square().sum())
    if not math.isfinite(apart):  # a running minimum changes by infinity when it gets its first number
        same = c.isinf() & (c == r)
        c, r = c.masked_fill(same, 0), r.masked_fill(same, 0)
        apart = float((c - r).square().sum())
    return [float(r.square().sum()), float((c * r).sum()), apart]


def _in_parts(torch: ModuleType, ours: Tensor, reference: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """In parts that fit into a processor's cache as float64."""
    both = ours, reference
    if reference.numel() <= _PART or any(one.layout != torch.strided for one in both):
        yield both
        return
    yield from zip(*(torch.split(torch.flatten(one), _PART) for one in both), strict=True)


def total(sums: Sequence[messages.Sums]) -> messages.Sums:
    return [sum(column) for column in zip(*sums, strict=True)] if sums else [0.0, 0.0, 0.0]


def change(after: Tensor, before: Tensor) -> Tensor:
    """At least in float32: the difference of two bfloat16 numbers may not be one. None where both are the
    same infinity, as in bounds, or in a mask of attention.
    """
    after = after.detach().to(before.device)
    if after.element_size() < 4:
        after, before = after.float(), before.float()
    return (after - before).masked_fill_(after.isinf() & (after == before), 0)


def rounding(torch: ModuleType, parameter: Tensor) -> float:
    """|c - r|^2 that storing the parameter alone explains: it is rounded in each of the two."""
    epsilon = torch.finfo(parameter.dtype).eps
    return float((epsilon * parameter.detach().double().norm()) ** 2)
