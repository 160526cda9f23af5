"""Tensors that worker processes send come in shared memory, each with an open file. A script without workers
may keep any number: so those of its batches are copied into this process's own memory, and the files closed.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import TYPE_CHECKING, Any

from ..internals.loaders import REBUILD_TENSOR, tensors_received
from ..seams import Call, Seams

if TYPE_CHECKING:
    from torch import Tensor

_WHOLE = 2  # memory up to this many times as large as the tensor is copied whole: others may be views of it

Copies = dict[int, "tuple[Tensor, Tensor]"]
"""Where shared memory begins -> (all of it, which is held so that none other begins there; its copy)."""


class PrivateTensors:
    """``receiving``: within it, tensors that this thread receives are copied."""

    def __init__(self, torch: ModuleType, seams: Seams) -> None:
        self._torch = torch
        self._here = threading.local()
        seams.replace(tensors_received(), REBUILD_TENSOR, self._around)

    @contextmanager
    def receiving(self) -> Iterator[None]:
        self._here.copies = {}
        try:
            yield
        finally:
            self._here.copies = None

    def _around(self, original: Call) -> Call:
        @functools.wraps(original)  # workers send it by its name
        def rebuild_tensor(*args: object) -> object:
            tensor: Any = original(*args)
            copies: Copies | None = getattr(self._here, "copies", None)
            if copies is not None and tensor.is_shared() and not tensor.is_quantized and tensor.numel():
                tensor.data = self._copy(tensor.detach(), copies)
            return tensor

        return rebuild_tensor

    def _copy(self, tensor: Any, copies: Copies) -> Tensor:
        """Laid out alike. Tensors that share memory with each other do so afterwards."""
        size, stride, offset = tensor.size(), tensor.stride(), tensor.storage_offset()
        span = 1 + sum((one - 1) * step for one, step in zip(size, stride, strict=True))
        memory = tensor.untyped_storage()
        if memory.nbytes() > _WHOLE * span * tensor.element_size():
            part = tensor.as_strided((span,), (1,)).clone().untyped_storage()
            return self._laid(part, tensor, 0)
        if memory.data_ptr() not in copies:
            whole = self._torch.empty(0, dtype=self._torch.uint8).set_(memory)
            copies[memory.data_ptr()] = whole, whole.clone()
        return self._laid(copies[memory.data_ptr()][1].untyped_storage(), tensor, offset)

    def _laid(self, memory: Any, like: Tensor, offset: int) -> Tensor:
        laid: Tensor = self._torch.empty(0, dtype=like.dtype)
        return laid.set_(memory, offset, like.size(), like.stride())
