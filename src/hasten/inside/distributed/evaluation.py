"""Evaluation shared among ranks: each computes the outputs of its part of a batch, and all get all of them.

All ranks read the same evaluation batches, so what the script makes of the outputs is what one process makes.
It is done only after a proof: the first batch is computed whole by every rank, too, and the outputs must be
the same.
"""

from __future__ import annotations

import weakref
from contextlib import suppress
from typing import Any

import torch
from torch.utils._pytree import tree_flatten, tree_unflatten

from ..structures import map_tensors, tensors_of
from ..training import Call
from .communication import Communication
from .slicing import slice_of

_LEAST_EACH = 4  # samples of a slice that is worth handing its outputs around
_SAME = {torch.float64: 1e-10, torch.float32: 1e-4}  # relative to the largest output
_SAME_OTHERWISE = 2e-2  # bfloat16, float16


class SharedEvaluation:
    """``run`` in place of a root's forward pass, under no_grad, the root in evaluation mode."""

    def __init__(self, communication: Communication) -> None:
        self._communication = communication
        self._cut: weakref.WeakKeyDictionary[Any, list[bool] | None] = weakref.WeakKeyDictionary()
        self.shared = 0  # passes

    def run(self, root: Any, call: Call, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        leaves, form = tree_flatten((args, kwargs))
        whole = _length(leaves)
        if whole < _LEAST_EACH * self._communication.size:
            return call(*args, **kwargs)
        cut = self._cut[root] if root in self._cut else [_is_of(leaf, whole) for leaf in leaves]
        if cut is None or not self._fits(cut, leaves, whole):
            return call(*args, **kwargs)
        part = slice_of(whole, self._communication.rank, self._communication.size)
        mine = [leaf[part.start : part.stop] if of else leaf for leaf, of in zip(leaves, cut, strict=True)]
        inputs = tree_unflatten(mine, form)
        if root not in self._cut:
            return self._prove(root, call, (args, kwargs), inputs, cut, whole)
        self.shared += 1
        return self._gathered(call(*inputs[0], **inputs[1]), whole)

    def _fits(self, cut: list[bool], leaves: list[Any], whole: int) -> bool:
        return len(cut) == len(leaves) and all(
            _is_of(leaf, whole) for leaf, of in zip(leaves, cut, strict=True) if of
        )

    def _prove(
        self, root: Any, call: Call, given: tuple[Any, Any], inputs: Any, cut: list[bool], whole: int
    ) -> Any:
        """The whole output; from now on the root's batches are shared if that is the same."""
        expected = call(*given[0], **given[1])
        output, unlike = None, 1.0
        with suppress(Exception):  # the model may take batches of this size alone
            output = call(*inputs[0], **inputs[1])
            unlike = float(not _is_alike(output, expected, whole))
        seen = sum(float(leaf.double().sum()) for leaf in tree_flatten(given)[0] if _is_of(leaf, whole))
        told = self._communication.gathered(torch.tensor([unlike, seen], dtype=torch.float64))
        holds = bool((told[:, 0] == 0).all()) and bool((told[:, 1] == told[0, 1]).all())
        if holds:
            same = _is_same(self._gathered(output, whole), expected)
            told = self._communication.gathered(torch.tensor([float(same)], dtype=torch.float64))
            holds = bool(told.all())
        self._cut[root] = cut if holds else None
        return expected

    def _gathered(self, output: Any, whole: int) -> Any:
        size = self._communication.size
        parts = [slice_of(whole, rank, size) for rank in range(size)]
        longest = max(part.stop - part.start for part in parts)

        def gather(tensor: Any) -> Any:
            padded = tensor
            if len(tensor) < longest:
                padded = tensor.new_zeros((longest, *tensor.shape[1:]))
                padded[: len(tensor)] = tensor
            rows = self._communication.gathered(padded.detach())
            return torch.cat([row[: part.stop - part.start] for row, part in zip(rows, parts, strict=True)])

        return map_tensors(torch, output, gather)


def _length(leaves: list[Any]) -> int:
    """Samples in a batch: the length of the first tensor."""
    return next((int(leaf.shape[0]) for leaf in leaves if torch.is_tensor(leaf) and leaf.dim()), 0)


def _is_of(leaf: Any, whole: int) -> bool:
    return torch.is_tensor(leaf) and leaf.dim() > 0 and leaf.shape[0] == whole


def _is_alike(part: Any, expected: Any, whole: int) -> bool:
    """Whether the outputs for a part of a batch are of the same form as those for the whole."""
    parts, wholes = tensors_of(torch, part), tensors_of(torch, expected)
    return (
        bool(wholes)
        and len(parts) == len(wholes)
        and all(_is_of(tensor, whole) for tensor in wholes)
        and all(a.shape[1:] == b.shape[1:] and a.dtype == b.dtype for a, b in zip(parts, wholes, strict=True))
        and len({len(tensor) for tensor in parts}) == 1
        and type(part) is type(expected)
    )


def _is_same(found: Any, expected: Any) -> bool:
    for a, b in zip(tensors_of(torch, found), tensors_of(torch, expected), strict=True):
        if not a.is_floating_point():
            if not torch.equal(a, b):
                return False
            continue
        largest = float(b.abs().max()) if b.numel() else 0.0
        if not float((a - b).abs().max()) <= _SAME.get(a.dtype, _SAME_OTHERWISE) * largest:
            return False
    return True
