"""Fingerprints of tensors, arrays and buffers; and how much memory plain values take."""

from __future__ import annotations

import ctypes
import marshal
import sys
import zlib
from collections.abc import Sequence
from itertools import islice
from operator import itemgetter
from pathlib import PurePath
from statistics import fmean
from typing import Any

WHOLE_BYTES = 2**24  # up to here all elements of an array or list count by value; of larger ones, some
_SOME = 2**20
_FIRST = 32  # values by which the size of all is estimated
_PLAIN = frozenset((int, float, complex, str, bytes, bool, type(None)))


def is_plain(value: object) -> bool:
    """Whether it is a number, a string, bytes or None, and not of a class made from one."""
    return type(value) in _PLAIN


def version_of(tensor: Any) -> int | None:
    """How often it was written to; None for inference-mode tensors, which do not count that."""
    try:
        return int(tensor._version)
    except RuntimeError:
        return None


def tensor_state(value: Any, most: int) -> tuple[object, int]:
    """A tensor's state, and how many of its bytes were read: all of them up to ``most``, because anything
    sharing its memory (``torch.from_numpy``) changes it without its version. Memory shared between processes
    is the same for all, and GPU memory is not read.
    """
    told = ("tensor", id(value), version_of(value), tuple(value.shape))
    torch = sys.modules["torch"]
    if type(value) not in (torch.Tensor, torch.nn.Parameter) or value.device.type != "cpu":
        return told, 0
    nbytes = value.numel() * value.element_size()
    if value.layout != torch.strided or not 0 < nbytes <= min(WHOLE_BYTES, most) or value.is_shared():
        return told, 0
    held = value.detach().contiguous()
    read = (ctypes.c_char * nbytes).from_address(held.data_ptr())
    return (*told, zlib.crc32(read)), nbytes


def array_state(value: Any) -> object:
    """State of a numpy array or number."""
    flags = getattr(value, "flags", None)
    if not value.ndim:
        return value.tobytes()
    if flags is not None and not flags.writeable:
        return ("array", id(value), value.shape)
    if value.nbytes > WHOLE_BYTES:
        value = value[:: max(1, len(value) // max(1, _SOME * len(value) // value.size))]
        value = value if value.nbytes <= WHOLE_BYTES else value[:1].reshape(-1)[:_SOME]
    return ("array", value.shape, str(value.dtype), zlib.crc32(value.tobytes()))


def buffer_state(value: Any) -> object:
    """State of a bytearray, ``array.array`` or memoryview."""
    with memoryview(value) as view:
        held = view.tobytes() if view.nbytes <= WHOLE_BYTES else view[: max(1, len(view) // 64)].tobytes()
        return ("buffer", view.nbytes, zlib.crc32(held))


def plain_bytes(value: Any, depth: int = 4) -> float | None:
    """About how many bytes plain values take, including containers, estimated from the first of each; None if
    something is not plain.
    """
    if is_plain(value):
        return sys.getsizeof(value)
    if type(value) not in (list, tuple, set, frozenset, dict) or not depth:
        return None
    sizes = []
    for one in islice(value.items() if type(value) is dict else value, _FIRST):
        size = plain_bytes(one, depth - 1)
        if size is None:
            return None
        sizes.append(size)
    return fmean(sizes) * len(value) if sizes else 0.0


def rows_digest(rows: Sequence[Any]) -> int | None:
    """Of paths, or of tuples of as many plain values and paths each, by value: such as the pictures of a
    folder with their classes. None for anything else, or for too much.
    """
    if (first := _columns(rows[:_FIRST])) is None:
        return None
    each = sum(plain_bytes(column) or 0.0 for column in first) / len(rows[:_FIRST])
    columns = _columns(rows) if each * len(rows) <= WHOLE_BYTES else None
    return None if columns is None else zlib.crc32(marshal.dumps(columns, 2))


def _columns(rows: Sequence[Any]) -> list[list[Any]] | None:
    """Paths as strings. Whole columns are looked at in C: single values would take ten times as long."""
    if set(map(type, rows)) == {tuple}:
        if len(set(map(len, rows))) > 1:
            return None
        columns = [list(map(itemgetter(n), rows)) for n in range(len(rows[0]))]
    else:
        columns = [list(rows)]
    for number, column in enumerate(columns):
        kinds = set(map(type, column))
        if all(issubclass(kind, PurePath) for kind in kinds):
            columns[number] = list(map(str, column))
        elif not kinds <= _PLAIN:
            return None
    return columns
