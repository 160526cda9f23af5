"""How far tensors are apart, relative to their size."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

_FILLED = 1e4  # a number of this size or more, equal in both, was filled in by a mask


def apart(ours: Tensor, theirs: Tensor) -> float:
    """The difference of two tensors relative to the second's norm. Infinite if they are not floating point
    and differ, or if different entries are NaN or infinite.
    """
    if not ours.is_floating_point():
        return 0.0 if bool((ours == theirs).all()) else math.inf
    ours, theirs = (t.detach() if t.dtype.itemsize > 2 else t.detach().float() for t in (ours, theirs))
    finite = theirs.isfinite()
    if not bool((ours.isfinite() == finite).all()):
        return math.inf
    counts = finite & ((ours != theirs) | (theirs.abs() < _FILLED))
    ours, theirs = ours.where(counts, 0.0), theirs.where(counts, 0.0)
    return _relative(float((ours - theirs).norm()), float(theirs.norm()))


def apart_together(ours: Sequence[Tensor | None], theirs: Sequence[Tensor | None]) -> float:
    difference = size = 0.0
    for a, b in zip_longest(ours, theirs):
        a, b = (None if t is None else t.double() for t in (a, b))
        if b is not None:
            size += float(b.square().sum())
        apart = a - b if a is not None and b is not None else a if a is not None else b
        difference += float(apart.square().sum()) if apart is not None else 0.0
    return _relative(math.sqrt(difference), math.sqrt(size))


def _relative(difference: float, size: float) -> float:
    if difference == 0.0:
        return 0.0
    relative = difference / size if size else math.inf
    return relative if math.isfinite(relative) else math.inf
