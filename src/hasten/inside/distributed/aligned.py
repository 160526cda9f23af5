"""A rank draws the same random numbers for its part of a batch as one process would: in a rehearsal all of
them, later those from the script's own generators.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from ..internals.dispatch import TorchDispatchMode, tree_map
from ..seams import Call, Kwargs, Seams
from .slicing import Slice


class AlignedDraws(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Draws per sample of a slice are made for the whole batch, and cut.

    A draw is per sample if the first dimension, of its first tensor or of the size, is the slice's. So
    the RNG state moves as in one process, and noise and its gradients are the same.
    """

    def __init__(self, current: Callable[[], Slice | None]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._current = current
        self.paused = False  # while samples are made
        self.drew = False  # numbers that differ from one process's outside of a rehearsal

    def __torch_dispatch__(
        self, func: Any, types: object, args: tuple[Any, ...] = (), kwargs: Kwargs | None = None
    ) -> object:
        kwargs = kwargs or {}
        current = self._current()
        if self.paused or current is None or torch.Tag.nondeterministic_seeded not in func.tags:
            return func(*args, **kwargs)
        mine, whole = current.stop - current.start, current.whole
        first: Any = next(
            (one for one in args if torch.is_tensor(one) or isinstance(one, (list, tuple))), None
        )
        if mine == whole or _length(first) != mine or isinstance(first, torch.nn.Parameter):
            return func(*args, **kwargs)
        if "out" in kwargs:
            return func(*args, **kwargs)
        self.drew = self.drew or kwargs.get("generator") is None
        cut = slice(current.start, current.stop)

        def widened(value: Any) -> Any:
            if not torch.is_tensor(value) or _length(value) != mine:
                return value
            wide = value.new_ones((whole, *value.shape[1:]))  # not zeros: as probabilities they are refused
            wide[cut] = value
            return wide

        wide: Any = widened(first) if torch.is_tensor(first) else [whole, *first[1:]]
        given = [wide if one is first else tree_map(widened, one) for one in args]
        result = func(*given, **tree_map(widened, kwargs))
        if func._schema.is_mutable:
            first.copy_(wide[cut])
            return first
        return tree_map(lambda part: part[cut] if torch.is_tensor(part) and part.dim() else part, result)


def _length(value: Any) -> int:
    """The length of the first dimension of a tensor or a size; -1 if there is none."""
    if torch.is_tensor(value):
        return int(value.shape[0]) if value.dim() else -1
    if isinstance(value, (list, tuple)) and value and isinstance(value[0], int):
        return value[0]
    return -1


_DROPOUTS = ("dropout", "alpha_dropout", "feature_alpha_dropout", "dropout1d", "dropout2d", "dropout3d")


def without_dropout(seams: Seams) -> None:
    """From now on dropout does nothing, in functions and layers. It may draw in a different shape from the
    batch's, which cannot be aligned.
    """
    functional = torch.nn.functional

    def idle(original: Call) -> Call:
        return lambda input, *args, **kwargs: input

    def attending(original: Call) -> Call:
        def attention(
            query: torch.Tensor,
            key: torch.Tensor,
            value: torch.Tensor,
            mask: object = None,
            dropout_p: float = 0.0,
            *args: object,
            **kwargs: object,
        ) -> object:
            mask = kwargs.pop("attn_mask", mask)
            return original(query, key, value, mask, 0.0, *args, **kwargs)

        return attention

    for name in _DROPOUTS:
        seams.replace(functional, name, idle)
    seams.replace(functional, "scaled_dot_product_attention", attending)


def quiet_recurrent(root: torch.nn.Module) -> Callable[[], None]:
    """The same for recurrent layers, which drop out inside; returns the undo."""
    layers = [(m, m.dropout) for m in root.modules() if isinstance(m, torch.nn.RNNBase) and m.dropout]
    for layer, _ in layers:
        layer.dropout = 0.0

    def undo() -> None:
        for layer, before in layers:
            layer.dropout = before

    return undo
