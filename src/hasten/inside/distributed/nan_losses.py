"""The first loss that is no number, noticed before the gradients of all ranks are mixed.

On CPUs alone: on a GPU the script would have to wait for the value.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from ..observing.backward_call import OF_AUTOGRAD, read_call
from ..seams import Call, Seams


def watch_losses(seams: Seams, found: Callable[[int], None]) -> None:
    """``found`` is called once, with the number of the backward pass, from 1."""
    passes, told = 0, False

    def around(original: Call) -> Call:
        def backward(*args: object, **kwargs: object) -> object:
            nonlocal passes, told
            passes += 1
            if not told and has_nan(read_call(OF_AUTOGRAD, args, kwargs).given):
                told = True
                found(passes)
            return original(*args, **kwargs)

        return backward

    seams.replace(torch.autograd, "backward", around)  # torch.Tensor.backward calls it, too


def has_nan(given: object) -> bool:
    """Whether one of the losses, on the CPU, is NaN."""
    losses = given if isinstance(given, (list, tuple)) else (given,)
    return any(isinstance(one, torch.Tensor) and _is_nan(one) for one in losses)


def _is_nan(loss: torch.Tensor) -> bool:
    return loss.device.type == "cpu" and loss.numel() == 1 and bool(torch.isnan(loss.detach()))
