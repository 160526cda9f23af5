"""Tensors that are alive somewhere the script's names do not lead: in a library's objects, or between calls.

They cannot be put back. After a restart each must have a value that was there before; one that was made of
what was not computed has not.
"""

from __future__ import annotations

import gc
import zlib
from collections import deque
from collections.abc import Callable, Iterable
from types import CodeType, FrameType, FunctionType, GeneratorType, ModuleType
from typing import Any

from ..internals.loaders import dataset_of, iterator_kind, workers_of
from .cannot import Diverged
from .heap import Found

_SAMPLED = 2**20  # bytes from which on only some are looked at
_HOLDING = (dict, list, tuple, set, deque, GeneratorType)
_OURS = ("hasten.inside.samples.", "hasten.inside.distributed.")  # rooms whose tensors are a matter of time
_DEPTH = 8
_DEEP = 16  # of a data set with models
_NO_DATA = (type, ModuleType, FunctionType, FrameType, CodeType)


def digests_of_others(
    torch: ModuleType, found: Found, states: Iterable[Any], ours: Iterable[Any] = ()
) -> list[tuple[int, str]]:
    """Digests, and what they are of: tensors neither in ``found``, nor in optimizers' ``states``, nor waiting
    in a loader, nor samples that a plan keeps, nor what ranks exchange.
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
        elif issubclass(kind, iterators) or str(kind.__module__).startswith(_OURS):
            held = list(getattr(thing, "__dict__", {}).values())  # Python 3.13's dictionary leads nowhere
            known |= {id(one) for one in _tensors_below(torch, held)}
    others = [one for one in tensors if id(one) not in known and _is_readable(torch, one)]
    return [(_digest(torch, one), f"{one.dtype} {tuple(one.shape)}") for one in others]


class GivenToWorkers:
    """Tensors of data sets of which worker processes have copies. What is put back does not come to them."""

    def __init__(self, torch: ModuleType) -> None:
        self._torch, kind = torch, iterator_kind()
        loaders = [one for one in gc.get_objects() if issubclass(type(one), kind) and workers_of(one)]
        held = [
            one for loader in loaders for one in _tensors_below(torch, dataset_of(loader), _is_data, _DEEP)
        ]
        self._before = [
            (one, _digest(torch, one)) for one in held if _is_readable(torch, one) and not one.is_shared()
        ]

    def compare(self) -> None:
        """Raises Diverged where one has another value now."""
        for tensor, before in self._before:
            if _digest(self._torch, tensor) != before:
                raise Diverged(
                    f"a loader's worker processes have a copy of a tensor that training changes "
                    f"({tensor.dtype} {tuple(tensor.shape)}), and it cannot be put back there: give that "
                    "loader num_workers=0"
                )


def _is_data(value: object) -> bool:
    return not isinstance(value, _NO_DATA)


def _is_holding(value: object) -> bool:
    return isinstance(value, _HOLDING) or type(value).__module__.startswith("torch.utils.data")


def _tensors_below(
    torch: ModuleType, value: Any, through: Callable[[object], bool] = _is_holding, depth: int = _DEPTH
) -> list[Any]:
    """In containers, and in the attributes of what they hold: of whatever one gets ``through``."""
    found, now, seen = [], [value], set()
    for _ in range(depth):
        following = []
        for one in now:
            if id(one) in seen:
                continue
            seen.add(id(one))
            if isinstance(one, torch.Tensor):
                found.append(one)
            elif through(one):
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
    flat = torch.flatten(tensor.detach())
    step = max(1, flat.numel() * flat.element_size() // _SAMPLED)
    data = flat[::step].contiguous().cpu()
    about = f"{tensor.dtype} {tuple(tensor.shape)}".encode()
    return zlib.crc32(data.view(torch.uint8).numpy() if data.numel() else b"", zlib.crc32(about))
