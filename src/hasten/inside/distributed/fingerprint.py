"""Short digests for ranks to compare: of tensors, of a call's inputs, of a module's state.

They cost about as much as copying the same memory. They are checksums, not safe against forgery.
"""

from __future__ import annotations

import ctypes
import hashlib
import zlib
from collections.abc import Iterable
from enum import Enum
from typing import Any

import torch

from ..internals.modules import has_forward_hooks, own_buffers, own_parameters

_SAMPLED = 16  # elements of a tensor that are examined if it seems unchanged
_PLAIN = (
    bool,
    int,
    float,
    complex,
    str,
    bytes,
    type(None),
    torch.dtype,
    torch.device,
    torch.Size,
    Enum,
    type,
)
_BYTES = 7  # of a digest, which is sent as a non-negative int64


class Incomparable(Exception):
    """A value that cannot be compared between ranks."""


def digest_of(parts: Iterable[object]) -> int:
    """A digest of numbers and texts; not 0."""
    told = hashlib.blake2b(repr(list(parts)).encode(), digest_size=_BYTES).digest()
    return int.from_bytes(told, "big") or 1


def value_of(leaf: Any) -> tuple[object, ...]:
    """What distinguishes a call's ``leaf`` from any other. Raises Incomparable."""
    if torch.is_tensor(leaf):
        return (str(leaf.dtype), tuple(leaf.shape), leaf.device.type, content_of(leaf))
    if isinstance(leaf, _PLAIN):
        return (type(leaf).__qualname__, repr(leaf))
    if hasattr(leaf, "tobytes") and hasattr(leaf, "dtype") and not leaf.dtype.hasobject:  # numpy's
        held = hashlib.blake2b(leaf.tobytes(), digest_size=_BYTES).hexdigest()
        return (type(leaf).__qualname__, str(leaf.dtype), leaf.shape, held)
    raise Incomparable(type(leaf).__qualname__)


def content_of(tensor: torch.Tensor) -> int:
    """A digest of its values only, on any device. Raises Incomparable for other kinds of tensors."""
    if not is_plain(tensor):
        raise Incomparable(type(tensor).__qualname__)
    plain = tensor.detach().resolve_conj().resolve_neg().contiguous().cpu()
    many = plain.numel() * plain.element_size()
    return zlib.crc32((ctypes.c_char * many).from_address(plain.data_ptr())) if many else 0


def is_plain(tensor: torch.Tensor) -> bool:
    """Whether it is just its elements in memory."""
    known = type(tensor) in (torch.Tensor, torch.nn.Parameter)
    return known and tensor.layout is torch.strided and not tensor.is_quantized and not tensor.is_meta


class StateDigest:
    """A digest of what determines a module's outputs besides its inputs: flags, parameters, buffers."""

    def __init__(self) -> None:
        self._seen: list[tuple[int, int, torch.Size]] = []
        self._content: list[int] = []

    def of(self, root: torch.nn.Module, trained: bool) -> int:
        """``trained``: its parameters may have changed in ways that leave no trace. Tensors that seem
        unchanged are looked at in a few places only. Raises Incomparable.
        """
        modules = list(root.modules())
        if any(map(has_forward_hooks, modules)):
            raise Incomparable("a module with hooks")
        flags = [module.training for module in modules]
        held = [t for m in modules for kind in (own_parameters(m), own_buffers(m)) for t in kind.values()]
        tensors = [tensor for tensor in held if tensor is not None]
        seen = [(t.data_ptr(), 0 if t.is_inference() else t._version, t.shape) for t in tensors]
        if trained or seen != self._seen or any(t.is_inference() for t in tensors):
            self._content = [content_of(tensor) for tensor in tensors]
            self._seen = seen
        return digest_of([*flags, *self._content, *_samples(tensors)])


def _samples(tensors: list[torch.Tensor]) -> list[int]:
    """Digests of a few elements of all of them, by their dtypes and devices."""
    chosen: dict[tuple[torch.dtype, torch.device], list[torch.Tensor]] = {}
    for tensor in tensors:
        flat = tensor.detach().reshape(-1) if tensor.is_contiguous() else torch.flatten(tensor.detach())
        place = (tensor.dtype, tensor.device)
        chosen.setdefault(place, []).append(flat[:: max(1, flat.numel() // _SAMPLED)])
    return [content_of(torch.cat(parts)) for parts in chosen.values()]
