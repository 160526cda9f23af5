"""Views of tensors that lie channels last: where torch cannot make one, the tensor moves into the usual
layout, so that what a script writes through a view is not lost.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ...internals.other_functions import is_transformed, is_view
from ...seams import Call
from ...training import Training

if TYPE_CHECKING:
    from torch import Tensor


class MovedViews:
    """In force until ``remove``. ``is_ours``: whether a tensor is a weight that lies channels last, or goes
    with one; ``laid_out`` gives it, and all that go with it, the usual layout.
    """

    def __init__(
        self, training: Training, is_ours: Callable[[Tensor], bool], laid_out: Callable[[Tensor], Tensor]
    ) -> None:
        self._torch = torch = training.torch
        self._is_ours, self._laid_out = is_ours, laid_out
        self.in_forward = False
        self.made = 0  # that would have failed
        replace = training.seams.replace
        self._undo = [replace(torch.Tensor, "view", self._around_view)]
        self._undo += [
            replace(torch.Tensor, name, self._around_copying) for name in ("reshape", "flatten", "ravel")
        ]

    def remove(self) -> None:
        while self._undo:
            self._undo.pop()()

    def _around_view(self, original: Call) -> Call:
        def view(tensor: Tensor, *size: Any, **kwargs: object) -> object:  # numbers, a size, or a dtype
            try:
                return original(tensor, *size, **kwargs)
            except (RuntimeError, ValueError):  # the latter while torch.compile traces
                if kwargs or isinstance(size[0], type(tensor.dtype)):
                    raise
                if not self.in_forward and self._may_be_written_through(tensor):
                    viewed = original(self._laid_out(tensor), *size)
                elif self._may_move(tensor):
                    tensor.data = tensor.detach().contiguous()
                    viewed = original(tensor, *size)
                else:
                    viewed = tensor.reshape(*size)  # which also raises where the size is wrong
                self.made += 1
                return viewed

        return view

    def _around_copying(self, original: Call) -> Call:
        def flat(tensor: Tensor, *args: object, **kwargs: object) -> object:
            made: Any = original(tensor, *args, **kwargs)
            if self.in_forward or tensor.dim() != 4 or tensor.is_contiguous():
                return made
            if not self._may_be_written_through(tensor) or not self._is_ours(tensor):
                return made
            if made.data_ptr() == tensor.data_ptr():
                return made
            return original(self._laid_out(tensor), *args, **kwargs)

        return flat

    def _may_be_written_through(self, tensor: Tensor) -> bool:
        """Whether autograd allows it: not into what it follows."""
        follows = tensor.requires_grad and self._torch.is_grad_enabled()
        return tensor.grad_fn is None and not follows

    def _may_move(self, tensor: Tensor) -> bool:
        """What a layer made may, before others follow it. A part of it may not, nor a weight."""
        torch = self._torch
        if torch.compiler.is_compiling() or torch.jit.is_tracing() or is_transformed(torch):
            return False
        if isinstance(tensor, torch.nn.Parameter) or is_view(tensor) or tensor.is_inference():
            return False
        return tensor.grad_fn is not None or not self._is_ours(tensor)
