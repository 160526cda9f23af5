"""The precision of float32 matrix products, found by computing one."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING

from ...training import Training

if TYPE_CHECKING:
    from torch import device as Device

_SIZE = 512  # oneDNN does not lower small products


def product_changes(
    torch: ModuleType, device: Device, put_back: Callable[[], None], put_on: Callable[[], None]
) -> bool:
    """Whether a product of two float32 matrices on ``device`` differs in bits from the one after
    ``put_back``.

    ``put_on`` follows. No random numbers are drawn.
    """
    numbers = torch.arange(_SIZE * _SIZE, device=device, dtype=torch.float32).reshape(_SIZE, _SIZE)
    a, b = torch.sin(numbers), torch.cos(numbers)
    with torch.no_grad(), torch.autocast(a.device.type, enabled=False):
        now = a @ b
        put_back()
        try:
            before = a @ b
        finally:
            put_on()
    return not torch.equal(now, before)


def device_of(training: Training) -> Device | None:
    """The device of the first root's first parameter; None if there is none."""
    return next((p.device for root in training.roots for p in root.parameters()), None)
