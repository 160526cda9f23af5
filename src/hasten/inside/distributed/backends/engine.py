"""What a backend must provide; the rest of a process group is built from it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from torch import Tensor


class Engine(Protocol):
    """Collectives over contiguous CPU tensors. Every rank calls the same ones in the same order."""

    rank: int

    def all_reduce(self, tensor: Tensor, op: str) -> None:
        """Reduce in place. ``op``: "sum", "avg", "max", "min", "product", "band", "bor" or "bxor"."""

    def reduce_scatter(self, output: Tensor, tensor: Tensor, op: str) -> None:
        """``output`` gets this rank's part of the result; ``tensor`` is as large as all ranks' parts."""

    def broadcast(self, tensor: Tensor, root: int) -> None:
        """Copy rank ``root``'s tensor into all others', in place."""

    def all_gather(self, output: Tensor, tensor: Tensor) -> None:
        """``output``: each rank's ``tensor``, one after another."""

    def barrier(self) -> None:
        """Return once all ranks have arrived."""

    def close(self) -> None:
        """Release what it holds."""


def reduce_scatter_by_all_reduce(engine: Engine, output: Tensor, tensor: Tensor, op: str) -> None:
    """Reduce-scatter for an engine that has none: it sends more than needed."""
    whole = tensor.clone()
    engine.all_reduce(whole, op)
    output.copy_(whole.view(-1, output.numel())[engine.rank].view(output.shape))
