"""Numbers too small for full precision: what they cost on this processor, and where they will come up.

A weight that gets no gradient for a while, as the inputs of a unit that stays silent or the row of a rare
word, keeps an average of gradients in its optimizer that shrinks with every step, until it is below 1.2e-38.
There it stays. Seen on an Intel Xeon: 60% of Adam's averages in a textbook CNN after 760 steps, and a step
took 17.5 ms instead of 8.5 from then on; an AMD EPYC computes with such numbers as fast as with others.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator
from functools import lru_cache
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor
    from torch.optim import Optimizer

_ELEMENTS = 2**14  # too few for torch to share them among threads
_REPEATS = 9
_LARGEST, SMALLEST = 1e-3, 1.2e-38  # an average when its gradients end; a number with full precision
MAGNITUDE, _EXPONENT = 0x7FFFFFFF, 0x7F800000  # of float32, as integers
PRODUCTS = 4  # with an average, at most, in an optimizer's step: Adam's take as long as three
_MARGIN = 1.1  # they do not all begin at the same step


@lru_cache(maxsize=1)
def extra_seconds(torch: ModuleType) -> float:
    """What one product with such a number takes longer, in seconds, in one thread; 0 if it does not."""

    def seconds(value: float) -> float:
        numbers = torch.full((_ELEMENTS,), value, dtype=torch.float32, device="cpu")
        times = []
        for _ in range(_REPEATS):
            began = time.perf_counter()
            torch.mul(numbers, 0.9)
            times.append(time.perf_counter() - began)
        return min(times)

    usual, tiny = seconds(1.0), seconds(1e-40)
    return max(0.0, tiny - usual) / _ELEMENTS


def kept_share(optimizer: Optimizer) -> float:
    """The largest share of its average of gradients that one step keeps; 0 if it has none."""
    return max((_kept(group) for group in optimizer.param_groups), default=0.0)


def _kept(group: dict[str, Any]) -> float:
    betas = group.get("betas")
    share = betas[0] if isinstance(betas, (tuple, list)) and betas else group.get("momentum", 0.0)
    try:
        return float(share or 0.0)
    except (TypeError, ValueError, RuntimeError):
        return 0.0


def steps_until_tiny(kept: float) -> int:
    """After so many steps without a gradient an average is too small; 0 if there is none, or it never is."""
    if not 0.0 < kept < 1.0:
        return 0
    return math.ceil(_MARGIN * math.log(_LARGEST / SMALLEST) / -math.log(kept))


def tiny_averages(
    torch: ModuleType, optimizers: Iterable[Optimizer]
) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Each tensor of an optimizer's state with such numbers: itself, as integers of 32 bits, and where they
    are.
    """
    for optimizer in optimizers:
        for state in optimizer.state.values():
            for tensor in state.values() if isinstance(state, dict) else ():
                if torch.is_tensor(tensor) and _is_plain(torch, tensor):
                    numbers = tensor.detach().view(torch.int32)
                    tiny = ((numbers & _EXPONENT) == 0) & ((numbers & MAGNITUDE) != 0)
                    if bool(tiny.any()):
                        yield tensor, numbers, tiny


def _is_plain(torch: ModuleType, tensor: Tensor) -> bool:
    """To look into a tensor that is spread over ranks, all of them would have to: its type is another."""
    kind = type(tensor), tensor.dtype, tensor.layout, tensor.device.type
    return kind == (torch.Tensor, torch.float32, torch.strided, "cpu")


def silent(torch: ModuleType, parameters: Iterable[Tensor]) -> int:
    """How many float32 numbers on the CPU have a gradient of zero now."""
    found = 0
    for parameter in parameters:
        gradient = parameter.grad
        if gradient is not None and _is_plain(torch, gradient):
            found += gradient.numel() - int(gradient.count_nonzero())
    return found
