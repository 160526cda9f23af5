"""Batches of pictures that stay bytes until they are on the device, where a table makes floats of them.

The table maps each byte of each channel to the result of the script's own transforms; so nothing is computed
on the device, and the floats are the same to the last bit as in main memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any

from .late_pictures import Pixels, planes, side_by_side

if TYPE_CHECKING:
    from torch import Tensor


class ByteBatch:
    """``pixels`` of pictures of ``kind`` in their own layout, and the ``table`` of their channels: it is
    passed between processes.
    """

    def __init__(self, pixels: Tensor, kind: str, table: bytes, channels_last: bool) -> None:
        self.pixels, self.kind, self.table, self.channels_last = pixels, kind, table, channels_last

    def pin_memory(self, *device: Any) -> ByteBatch:
        """Called by torch's loaders."""
        return ByteBatch(self.pixels.pin_memory(*device), self.kind, self.table, self.channels_last)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape (N, C, H, W) of the float batch that it stands for."""
        return tuple(planes(self.pixels, self.kind).shape)

    def strides(self, torch: ModuleType) -> tuple[int, ...]:
        layout = torch.channels_last if self.channels_last else torch.contiguous_format
        return tuple(torch.empty(self.shape, device="meta", memory_format=layout).stride())

    def floats(self, torch: ModuleType, pixels: Tensor, table: Tensor) -> Tensor:
        """On the device of both, or in main memory."""
        order = (0, 2, 3, 1) if self.channels_last else (0, 1, 2, 3)
        lying = planes(pixels, self.kind).permute(order).contiguous()
        channels = self.shape[1]
        begins = torch.arange(0, 256 * channels, 256, dtype=torch.int32, device=lying.device)
        places = lying.to(torch.int32).add_(begins if self.channels_last else begins.view(-1, 1, 1))
        found: Tensor = table.index_select(0, places.view(-1)).view(lying.shape)
        return found.permute(0, 3, 1, 2) if self.channels_last else found

    def table_here(self, torch: ModuleType) -> Tensor:
        """The table as a tensor in main memory: 256 floats for each channel."""
        found: Tensor = torch.frombuffer(bytearray(self.table), dtype=torch.float32)
        return found


def bytes_of(pictures: Sequence[Pixels]) -> object:
    """The batch to collate instead of one of floats."""
    import torch

    late, kind = pictures[0].late, pictures[0].kind
    channels_last = late.channels_last and torch.utils.data.get_worker_info() is None
    return ByteBatch(side_by_side(torch, pictures), kind, late.table(kind), channels_last)
