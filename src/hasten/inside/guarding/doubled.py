"""Training in float64: what the script creates in float32 is created in float64, if possible.

There, sums in a different order differ by about 1e-16. So ranks that are further than that from one process
compute something else.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import torch

from ..internals.loaders import iterator_kind
from ..internals.other_functions import storage_kinds
from ..random_state import DRAWING_IN_PLACE
from ..seams import Call, Seams
from ..structures import map_tensors

SINGLE, DOUBLE = torch.float32, torch.float64
Structure = TypeVar("Structure")


def train_in_float64(seams: Seams) -> None:
    """From here on the training is in float64, with the weights, samples and masks that float32 has."""
    double_all(seams)
    _double_batches(seams)
    _draw_as_single(seams)


def double_all(seams: Seams) -> None:
    """From here on ``torch.float32`` is float64, and float32 from elsewhere is converted."""
    storage_kinds(torch)  # by the dtypes' own names
    torch.set_default_dtype(DOUBLE)
    for name in ("float32", "float"):
        seams.replace(torch, name, lambda _: DOUBLE)
    seams.replace(torch.Tensor, "float", lambda _: torch.Tensor.double)
    seams.replace(torch.nn.Module, "float", lambda _: torch.nn.Module.double)
    for name in ("from_numpy", "as_tensor", "tensor", "load"):
        seams.replace(torch, name, _made_double)


_MADE = ("rand", "randn", "rand_like", "randn_like", "normal", "bernoulli", "multinomial")


def _draw_as_single(seams: Seams) -> None:
    """Random numbers are drawn in float32, so that a training in float64 has the same weights, samples and
    masks: the numbers, and how far the RNG state moves, depend on the dtype.
    """
    for name in _MADE:
        seams.replace(torch, name, _drawn_single)
    for name in DRAWING_IN_PLACE:
        seams.replace(torch.Tensor, name, _filled_single)


def _drawn_single(original: Call) -> Call:
    def drawn(*args: object, **kwargs: object) -> object:
        args, kwargs = single(args), single(kwargs)
        usual = None if any(map(torch.is_tensor, args)) else DOUBLE
        if kwargs.get("dtype", usual) == DOUBLE:
            kwargs["dtype"] = SINGLE
        return doubled(original(*args, **kwargs))

    return drawn


def _filled_single(original: Callable[..., torch.Tensor]) -> Call:
    def fill(tensor: torch.Tensor, *args: object, **kwargs: object) -> object:
        if tensor.dtype != DOUBLE:
            return original(tensor, *args, **kwargs)
        fresh = torch.empty_like(tensor, dtype=SINGLE, requires_grad=False)
        return tensor.copy_(original(fresh, *single(args), **single(kwargs)))

    return fill


def single(value: Structure) -> Structure:
    """``value`` with each tensor of float64 in it in float32."""
    return map_tensors(torch, value, lambda t: t.to(SINGLE) if t.dtype == DOUBLE else t)


def _double_batches(seams: Seams) -> None:
    """Converts batches of any loader, including those made in worker processes."""
    seams.replace(iterator_kind(), "__next__", _made_double)


def _made_double(original: Call) -> Call:
    def made(*args: object, **kwargs: object) -> object:
        return doubled(original(*args, **kwargs))

    return made


def doubled(value: Structure) -> Structure:
    """``value`` with each tensor of float32 in it in float64."""
    return map_tensors(torch, value, lambda t: t.to(DOUBLE) if t.dtype == SINGLE else t)
