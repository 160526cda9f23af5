"""Tensors that are alive somewhere the script's names do not lead: in a library's objects, or between calls.

They cannot be put back. After a restart each must have a value that was there before; one that was made of
what was not computed has not.
"""

from __future__ import annotations

import gc
import zlib
from collections import deque
from collections.abc import Iterable
from types import GeneratorType, ModuleType
from typing import Any

from ..internals.loaders import iterator_kind
from .heap import Found

_SAMPLED = 2**20  # bytes from which on only some are looked at
_HOLDING = (dict, list, tuple, set, deque, GeneratorType)
_DEPTH = 8


def digests_of_others(
    torch: ModuleType, found: Found, states: Iterable[Any], ours: Iterable[Any] = ()
) -> dict[int, str]:
    """By digest, what they are: those neither in ``found``, nor in optimizers' ``states``, nor waiting in a
    loader.
    """
    known = {id(tensor) for tensor in found.tensors.values()}
    known |= set(map(id, ours))
    known |= {id(one) for state in states for one in _tensors_below(torch, state)}
    iterators = iterator_kind()
    tensors = []
    for thing in gc.get_objects():
        kind = type(thing)
        if issubclass(kind, torch.Tensor):
            tensors.append(thing)
        elif issubclass(kind, iterators):
            known |= {id(one) for one in _tensors_below(torch, vars(thing))}
    others = [one for one in tensors if id(one) not in known and _is_readable(torch, one)]
    return {_digest(torch, one): f"{one.dtype} {tuple(one.shape)}" for one in others}


def _tensors_below(torch: ModuleType, value: Any) -> list[Any]:
    """In containers, and in the attributes of what they hold."""
    found, now, seen = [], [value], set()
    for _ in range(_DEPTH):
        following = []
        for one in now:
            if id(one) in seen:
                continue
            seen.add(id(one))
            if isinstance(one, torch.Tensor):
                found.append(one)
            elif isinstance(one, _HOLDING) or type(one).__module__.startswith("torch.utils.data"):
                following += [part for part in gc.get_referents(one) if gc.is_tracked(part)]
        now = following
    return found


def _is_readable(torch: ModuleType, tensor: Any) -> bool:
    return bool(
        tensor.layout == torch.strided
        and tensor.device.type != "meta"
        and type(tensor) in (torch.Tensor, torch.nn.Parameter)
    )


def _digest(torch: ModuleType, tensor: Any) -> int:
    flat = tensor.detach().reshape(-1)
    step = max(1, flat.numel() * flat.element_size() // _SAMPLED)
    data = flat[::step].contiguous().cpu()
    about = f"{tensor.dtype} {tuple(tensor.shape)}".encode()
    return zlib.crc32(data.view(torch.uint8).numpy() if data.numel() else b"", zlib.crc32(about))
