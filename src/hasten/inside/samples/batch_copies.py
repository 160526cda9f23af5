"""Copies of batches without excess memory: a tensor that is a view of a larger one is copied without the rest
of it. Strides are kept, and so is which parts of a batch are the same object.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Iterator
from types import ModuleType
from typing import TYPE_CHECKING, Any

from .sampling_proof import sample_nbytes

if TYPE_CHECKING:
    from torch import Tensor


class Copier:
    """Copies one batch, which consists of types that ``incomparable`` knows."""

    def __init__(self, torch: ModuleType, batch: object) -> None:
        self._torch = torch
        self._batch = batch
        self._leaves = list({id(leaf): leaf for leaf in _leaves(batch)}.values())
        self._tensors: list[Any] = [leaf for leaf in self._leaves if hasattr(leaf, "element_size")]
        cpu = [
            tensor for tensor in self._tensors if tensor.device.type == "cpu" and _is_strided(torch, tensor)
        ]
        shared = Counter(_storage(tensor) for tensor in cpu)
        self._alone = {
            id(tensor) for tensor in cpu if shared[_storage(tensor)] == 1 and _is_plain(torch, tensor)
        }

    @property
    def elsewhere(self) -> str:
        """The kind of device that a tensor is on, other than main memory; "" if none is."""
        return next((one.device.type for one in self._tensors if one.device.type != "cpu"), "")

    @property
    def nbytes(self) -> int:
        """Bytes of a copy, without its Python objects."""
        whole: dict[int, int] = {}
        total: int = 0
        for leaf in self._leaves:
            if id(leaf) in self._alone:
                total += _span(leaf) * leaf.element_size()
            elif hasattr(leaf, "element_size") and _is_strided(self._torch, leaf):
                whole[_storage(leaf)] = leaf.untyped_storage().nbytes()
            else:
                total += sample_nbytes(leaf)
        return total + sum(whole.values())

    def copied(self) -> object:
        made = {id(one): _compact(one) for one in self._tensors if id(one) in self._alone}
        return copy.deepcopy(self._batch, made)


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (tuple, list)):
        for part in value:
            yield from _leaves(part)
    else:
        yield value


def _is_strided(torch: ModuleType, tensor: Tensor) -> bool:
    return bool(tensor.layout is torch.strided) and not tensor.is_nested


def _is_plain(torch: ModuleType, tensor: Tensor) -> bool:
    """Whether a copy of its elements is all that there is to copy."""
    return (
        type(tensor) is torch.Tensor
        and not (tensor.requires_grad or tensor.is_quantized)
        and not (tensor.is_conj() or tensor.is_neg())
        and not vars(tensor)
    )


def _storage(tensor: Tensor) -> int:
    return tensor.untyped_storage().data_ptr() or id(tensor)


def _span(tensor: Tensor) -> int:
    """Elements from its first to its last in memory, with the gaps between rows of a view."""
    if not tensor.numel():
        return 0
    return 1 + sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))


def _compact(tensor: Tensor) -> Tensor:
    plain = tensor.detach()
    span = _span(plain)
    if span in (0, plain.numel()) and 0 not in plain.stride():
        return plain.clone()  # which keeps strides
    within = plain.as_strided((span,), (1,)).clone()
    return within.as_strided(plain.shape, plain.stride())
