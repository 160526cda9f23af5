"""The first loss that is no number: which rank had it, before the gradients of all are mixed.

Such a training goes on, as it does in one process.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch

from ...saying import say
from ..job import Hosts
from ..observing.backward_call import OF_AUTOGRAD, read_call
from ..seams import Call, Seams
from .communication import Communication
from .own_time import rank_words


class NanOfRanks:
    """For ranks whose losses are summed anyway: where the sum is NaN, all of them know it, and ask whose."""

    def __init__(self, communication: Communication, hosts: Hosts | None) -> None:
        self._communication, self._hosts = communication, hosts
        self._told = False

    def heard(self, sums: Sequence[float], mine: Sequence[float], steps: int) -> None:
        """``sums``: over all ranks, the same in all; ``mine``: this rank's part of them."""
        if self._told or not any(map(math.isnan, sums)):
            return
        self._told = True
        has = torch.tensor([float(any(map(math.isnan, mine)))])
        whose = [n for n, (one,) in enumerate(self._communication.gathered(has).tolist()) if one]
        if self._communication.rank:
            return
        who = ", ".join(rank_words(rank, self._hosts) for rank in whose)
        if len(whose) == self._communication.size > 1:
            who = "all ranks"
        say(
            f"hasten: the loss is NaN in step {steps + 1}, from the part of the batch of {who}; the training "
            "goes on, as it would in one process"
        )


def watch_losses(seams: Seams, found: Callable[[int], None]) -> None:
    """For scripts that mix gradients themselves. ``found`` is called once, with the number of the backward
    pass, from 1. On CPUs alone: on a GPU the script would have to wait for the value.
    """
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
