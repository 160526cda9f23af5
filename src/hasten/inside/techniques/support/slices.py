"""Tensors of which only some indices along each dimension are kept, and their form in full size."""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Kept:
    """Of a tensor of ``shape``: for each dimension the indices that are kept, in order, as a tensor.

    ``fill`` stands at full size where nothing is kept.
    """

    shape: tuple[int, ...]
    indices: tuple[Tensor, ...]
    fill: float = 0.0

    def sliced(self, full: Tensor) -> Tensor:
        """The part of ``full``, a tensor of ``shape``, that is kept; contiguous."""
        for dim, index in enumerate(self.indices):
            if len(index) < full.shape[dim]:
                full = full.index_select(dim, index.to(full.device))
        return full.contiguous()

    def restored(self, part: Tensor) -> Tensor:
        """``part`` in its places of a tensor of ``shape``."""
        full = part.new_full(self.shape, self.fill)
        places = [
            index.to(part.device).view([-1 if d == dim else 1 for d in range(len(self.shape))])
            for dim, index in enumerate(self.indices)
        ]
        full[tuple(places)] = part
        return full

    @property
    def small_shape(self) -> tuple[int, ...]:
        """The shape of what is kept."""
        return tuple(len(index) for index in self.indices)


def markers(torch: ModuleType, tensor: Tensor) -> Tensor:
    """A tensor of the same shape, whose every element tells where it stands; exact up to 2^53 elements."""
    numbers: Tensor = torch.arange(tensor.numel(), dtype=torch.float64, device=tensor.device)
    return numbers.view(tensor.shape)


def kept_of(torch: ModuleType, shape: tuple[int, ...], marked: Tensor, fill: float) -> Kept:
    """What is left in ``marked``, the markers of a tensor of ``shape`` after it was cut.

    Raises ValueError if that is not a choice of indices along each dimension.
    """
    if marked.dim() != len(shape) or not marked.numel():
        raise ValueError("a tensor was not cut along its dimensions")
    places = torch.unravel_index(marked.long(), shape)
    indices = []
    for dim, along in enumerate(places):
        first = along[tuple(slice(None) if d == dim else 0 for d in range(len(shape)))]
        indices.append(first)
        expected = first.view([-1 if d == dim else 1 for d in range(len(shape))]).expand(marked.shape)
        if not torch.equal(along, expected):
            raise ValueError("a tensor was not cut along its dimensions")
    return Kept(tuple(shape), tuple(indices), fill)
