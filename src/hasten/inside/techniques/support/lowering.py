"""A forward pass under autocast, for the techniques of lower precision."""

from __future__ import annotations

from contextlib import nullcontext
from types import ModuleType
from typing import TYPE_CHECKING

from ...seams import Args, Call, Kwargs
from ...structures import Structure, map_tensors

if TYPE_CHECKING:
    from torch import Tensor
    from torch import dtype as DType
    from torch.nn import Module


class LoweredForward:
    """Runs the forward passes that record gradients under autocast, unless the script uses autocast itself;
    outputs come back in float32. ``calls`` counts them. ``lowered`` counts the tensors of type ``reduced``
    that autograd saves in the first one: the proof that something was computed in it.
    """

    def __init__(self, torch: ModuleType, reduced: DType) -> None:
        self._torch = torch
        self._reduced = reduced
        self.calls = 0
        self.lowered = 0

    def __call__(self, root: Module, call: Call, args: Args, kwargs: Kwargs) -> object:
        torch = self._torch
        device = next(root.parameters()).device.type
        if not torch.is_grad_enabled() or torch.is_autocast_enabled(device):
            return call(*args, **kwargs)
        autocast = torch.autocast(device, dtype=self._reduced)
        autocast._by_hasten = True
        watching = torch.autograd.graph.saved_tensors_hooks(self._kept, lambda tensor: tensor)
        with nullcontext() if self.calls else watching, autocast:
            output = call(*args, **kwargs)
        self.calls += 1
        return in_float32(torch, output, self._reduced)

    def _kept(self, tensor: Tensor) -> Tensor:
        self.lowered += tensor.dtype == self._reduced
        return tensor


def in_float32(torch: ModuleType, output: Structure, reduced: DType) -> Structure:
    """``output`` with float32 in place of ``reduced``, in containers too."""
    return map_tensors(torch, output, lambda tensor: tensor.float() if tensor.dtype == reduced else tensor)
