"""Random numbers for channels-last tensors, drawn in the same order as for the usual layout.

Dropout and others draw for the elements in the order of memory. In another layout the same numbers would go
to other elements: another training, though no worse one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ...random_state import DRAWING_IN_PLACE
from ...training import Training

if TYPE_CHECKING:
    from torch import Tensor

Draw = Callable[..., "Tensor"]
_LIKE = ("rand_like", "randn_like", "randint_like")


class LogicalDraws:
    """In force until ``remove``. Only for scripts whose own tensors have the usual layout."""

    def __init__(self, training: Training) -> None:
        self.drawn = 0  # operators that would have drawn differently
        self._training, self._torch = training, training.torch
        self._undo: list[Callable[[], None]] = []
        self._put()

    def _put(self) -> None:
        torch, replace = self._torch, self._training.seams.replace
        functional = torch.nn.functional
        self._undo = [
            replace(functional, "dropout", self._around_dropout),
            replace(functional, "alpha_dropout", self._around_alpha_dropout),
            *(replace(torch, name, self._around_like) for name in _LIKE),
            *(replace(torch.Tensor, name, self._around_in_place) for name in DRAWING_IN_PLACE),
        ]

    def remove(self) -> None:
        while self._undo:
            self._undo.pop()()

    @contextmanager
    def absent(self) -> Iterator[None]:
        """TorchScript compiles torch's own functions, and cannot compile ours. It calls itself for each."""
        present = bool(self._undo)
        self.remove()
        try:
            yield
        finally:
            if present:
                self._put()

    def _is_reordered(self, tensor: object) -> bool:
        last = self._torch.channels_last
        if not isinstance(tensor, self._torch.Tensor) or tensor.dim() != 4 or tensor.is_contiguous():
            return False
        return bool(tensor.is_contiguous(memory_format=last))

    def _count(self) -> None:
        """Not while torch.compile traces: it would compile again for every number."""
        if not self._torch.compiler.is_compiling():
            self.drawn += 1

    def _around_dropout(self, original: Draw) -> Draw:
        def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
            if not training or not self._is_reordered(input):
                return original(input, p, training, inplace)
            self._count()
            ones = self._torch.ones(input.shape, dtype=input.dtype, device=input.device)
            mask: Tensor = original(ones, p, True, True).to(memory_format=self._torch.channels_last)
            return input.mul_(mask) if inplace else input * mask

        return dropout

    def _around_alpha_dropout(self, original: Draw) -> Draw:
        def alpha_dropout(
            input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False
        ) -> Tensor:
            if not training or not self._is_reordered(input):
                return original(input, p, training, inplace)
            self._count()
            dropped: Tensor = original(input.contiguous(), p, True).to(
                memory_format=self._torch.channels_last
            )
            return input.copy_(dropped) if inplace else dropped

        return alpha_dropout

    def _around_like(self, original: Draw) -> Draw:
        def like(input: Tensor, *args: object, **kwargs: object) -> Tensor:
            if not self._is_reordered(input) or kwargs.get("memory_format") is not None:
                return original(input, *args, **kwargs)
            self._count()
            return original(input, *args, **{**kwargs, "memory_format": self._torch.contiguous_format})

        return like

    def _around_in_place(self, original: Draw) -> Draw:
        def draw(tensor: Tensor, *args: object, **kwargs: object) -> Tensor:
            if not self._is_reordered(tensor):
                return original(tensor, *args, **kwargs)
            self._count()
            fresh = self._torch.empty(tensor.shape, dtype=tensor.dtype, device=tensor.device)
            return tensor.copy_(original(fresh, *args, **kwargs))

        return draw
