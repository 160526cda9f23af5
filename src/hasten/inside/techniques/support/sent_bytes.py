"""Batches of bytes as the script gets them: tensors that become floats when sent to the device."""

from __future__ import annotations

from contextlib import suppress
from types import ModuleType
from typing import TYPE_CHECKING, Any

from ...samples.byte_batches import ByteBatch
from ...samples.columns import same_batch
from ...samples.store_counts import Counts
from .device_copies import target_of

if TYPE_CHECKING:
    from torch import Tensor
    from torch import device as Device


class SentBytes:
    """For one kind of device. ``sent``: batches sent as bytes; ``made``: those that became floats before."""

    def __init__(self, torch: ModuleType, device: str, counts: Counts) -> None:
        self.sent = 0
        self.made = 0
        self._torch = torch
        self._device = device
        self._counts = counts
        self._tables: dict[tuple[bytes, Device], Tensor] = {}
        self._compared: set[Device] = set()

    def tensor(self, batch: ByteBatch) -> Tensor:
        """The tensor that the script gets."""
        from ...internals.late_tensor import LateTensor

        def make() -> Tensor:
            self.made += 1
            return batch.floats(self._torch, batch.pixels, batch.table_here(self._torch))

        def send(late: LateTensor, args: Any, kwargs: Any) -> Tensor | None:
            target = target_of(self._torch, late, args, kwargs)
            if target is None or target.type != self._device or self._counts.given_up:
                return None
            with suppress(RuntimeError):  # no room on the device: the script's own copy raises it
                return self._on(batch, target, bool(kwargs.get("non_blocking")))
            return None

        return LateTensor(batch.shape, batch.strides(self._torch), make, send)

    def _on(self, batch: ByteBatch, target: Device, non_blocking: bool) -> Tensor | None:
        """The floats on the device; None if they would not be the same."""
        torch = self._torch
        pixels = batch.pixels.to(device=target, non_blocking=non_blocking)
        key = (batch.table, pixels.device)
        if key not in self._tables:
            self._tables[key] = batch.table_here(torch).to(device=pixels.device)
        found = batch.floats(torch, pixels, self._tables[key])
        if found.device not in self._compared:
            self._compared.add(found.device)
            here = batch.floats(torch, batch.pixels, batch.table_here(torch))
            if not same_batch(found.cpu(), here):
                self._counts.give_up(f"pictures of bytes become other floats on {found.device}")
                return None
        self.sent += 1
        return found
