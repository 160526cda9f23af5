"""A forward pass under autocast, for the techniques of lower precision."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

from ...structures import map_tensors
from ...training import Call


class LoweredForward:
    """Runs the forward passes that record gradients under autocast, unless the script uses autocast itself;
    outputs come back in float32. ``calls`` counts them. ``lowered`` counts the tensors of type ``reduced``
    that autograd saves in the first one: the proof that something was computed in it.
    """

    def __init__(self, torch: Any, reduced: Any) -> None:
        self._torch = torch
        self._reduced = reduced
        self.calls = 0
        self.lowered = 0

    def __call__(self, root: Any, call: Call, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
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

    def _kept(self, tensor: Any) -> Any:
        self.lowered += tensor.dtype == self._reduced
        return tensor


def in_float32(torch: Any, output: Any, reduced: Any) -> Any:
    """``output`` with float32 in place of ``reduced``, in containers too."""
    return map_tensors(torch, output, lambda tensor: tensor.float() if tensor.dtype == reduced else tensor)
