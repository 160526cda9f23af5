"""The bytes of a tensor, not copied."""

from __future__ import annotations

import zlib
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor


def bytes_of(torch: ModuleType, tensor: Tensor) -> Tensor:
    """All of a tensor's storage, as bytes; not copied."""
    empty = torch.empty(0, dtype=torch.uint8, device=tensor.device)
    data: Tensor = empty.set_(tensor.untyped_storage())
    return data


def address_of(data: Tensor) -> tuple[int, int]:
    return data.data_ptr(), data.numel()


def crc_of(data: Tensor) -> int:
    return zlib.crc32(content_of(data.cpu()))


def unexpanded(tensor: Tensor) -> Tensor:
    """Without repetitions of the same memory."""
    for dimension, stride in enumerate(tensor.stride()):
        if stride == 0 and tensor.shape[dimension] > 1:
            tensor = tensor.narrow(dimension, 0, 1)
    return tensor


def content_of(data: Tensor) -> memoryview:
    """Of bytes in main memory; not copied."""
    array: Any = data.numpy()
    return memoryview(array)
