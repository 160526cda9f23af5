"""A sample as bytes: a plain header (JSON) with its structure, and the raw bytes of its parts.

Supports tensors, numpy's arrays and numbers, Python's numbers and strings, None, loaded Pillow images, and
tuples, lists and dicts of these. Anything else is refused by name: nothing is pickled, so reading back cannot
run code.
"""

from __future__ import annotations

import json
import struct
import sys
from collections.abc import Sequence
from functools import lru_cache
from math import prod
from types import ModuleType
from typing import Any

from .sampling_proof import Marked, is_picture, raw_bytes

_ALIGNED = 64  # bytes; tensors and arrays begin at a multiple
_DTYPES = {
    *("bool", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64"),
    *("float16", "bfloat16", "float32", "float64", "complex64", "complex128"),
}
_KINDS = "biufcmMSU"  # of numpy's dtypes: no objects, no records
# of pictures
_MODES = {"1", "L", "LA", "La", "RGB", "RGBA", "RGBa", "CMYK", "YCbCr", "HSV", "I", "F", "I;16"}
_NUMBER = struct.Struct("<q")
_REAL = struct.Struct("<d")
_MOST_DEPTH = 32

Layout = Sequence[Any]
"""(kind, its data ...), as tuples of tuples until it is written as JSON."""


class Unstorable(Exception):
    """A sample holds what cannot be kept as plain bytes; the message names it."""


def encode(sample: object) -> tuple[bytes, bytes]:
    """A sample as (layout, body). Raises Unstorable."""
    body = _Body()
    layout = body.lay(sample, 0)
    return _dumped(layout), b"".join(body.parts)


def decode(torch: ModuleType, layout: bytes, body: memoryview, copied: bool) -> object:
    """The sample. ``body`` begins at a multiple of 16 bytes in memory and can be written to. Unless
    ``copied``, tensors and arrays are views of it.
    """
    return _Reading(torch, body, copied).take(_parsed(layout))


@lru_cache(maxsize=1024)  # most samples of a data set have the same
def _dumped(layout: Layout) -> bytes:
    return json.dumps(layout, separators=(",", ":")).encode()


@lru_cache(maxsize=1024)
def _parsed(layout: bytes) -> Layout:
    found: Layout = json.loads(layout)
    return found


class _Body:
    """Collects the parts' bytes."""

    def __init__(self) -> None:
        self.parts: list[bytes] = []
        self._bytes = 0

    def lay(self, value: Any, depth: int) -> Layout:
        kind = type(value)
        if depth > _MOST_DEPTH:
            raise Unstorable("parts that are nested too deeply")
        if kind in (tuple, list):
            return "T" if kind is tuple else "L", tuple([self.lay(part, depth + 1) for part in value])
        if kind is dict:
            if not all(type(key) in (str, int) for key in value):
                raise Unstorable("a dict whose keys are not strings or whole numbers")
            return "D", tuple(value), tuple([self.lay(part, depth + 1) for part in value.values()])
        if kind is Marked:
            return "M", self.lay(value.value, depth + 1)
        if is_picture(value):
            return self._picture(value, depth)
        if hasattr(value, "element_size"):
            return self._tensor(value)
        if kind.__module__ == "numpy" and hasattr(value, "dtype"):
            return self._array(value)
        return self._plain(value)

    def _plain(self, value: Any) -> Layout:
        kind = type(value)
        if value is None:
            return ("N",)
        if kind is bool:
            return "B", int(value)
        if kind is int:
            if -(2**63) <= value < 2**63:
                return "I", self._add(_NUMBER.pack(value))
            return "J", self._add(hex(value).encode())
        if kind is float:
            return "F", self._add(_REAL.pack(value))
        if kind is str:
            return "S", self._add(value.encode("utf-8", "surrogatepass"))
        if kind is bytes:
            return "Y", self._add(value)
        raise Unstorable(f"{kind.__qualname__} objects")

    def _tensor(self, tensor: Any) -> Layout:
        torch = sys.modules["torch"]
        name = str(tensor.dtype).removeprefix("torch.")
        plain = type(tensor) is torch.Tensor and tensor.layout is torch.strided and not tensor.is_nested
        if not plain or tensor.is_quantized or name not in _DTYPES:
            raise Unstorable(f"{type(tensor).__qualname__} objects of {name} that are not plain tensors")
        if tensor.device.type != "cpu" or tensor.requires_grad or tensor.is_conj() or tensor.is_neg():
            raise Unstorable("tensors of a device, with a gradient or with a lazy sign")
        if tensor.is_contiguous():
            shape = tuple(tensor.shape)
            return "t", name, shape, tuple(range(len(shape))), self._add(raw_bytes(tensor), aligned=True)
        order = _order(tensor.stride(), tensor.shape)
        if not tensor.permute(order).is_contiguous():
            tensor = tensor.clone()  # without the gaps; torch keeps the order of its dimensions
            order = _order(tensor.stride(), tensor.shape)
        inner = tensor.permute(order)
        if not inner.is_contiguous():
            raise Unstorable("tensors whose memory overlaps")
        kept = self._add(raw_bytes(inner), aligned=True)
        return "t", name, tuple(inner.shape), _inverse(order), kept

    def _array(self, array: Any) -> Layout:
        numpy = sys.modules["numpy"]
        if array.dtype.kind not in _KINDS:
            raise Unstorable(f"arrays of {array.dtype}")
        if type(array) is not numpy.ndarray and not isinstance(array, numpy.generic):
            raise Unstorable(f"{type(array).__qualname__} objects of numpy")
        if isinstance(array, numpy.generic):
            return "g", array.dtype.str, self._add(array.tobytes(), aligned=True)
        order = _order(array.strides, array.shape)
        if not array.transpose(order).flags.c_contiguous:
            array = array.copy(order="K")
            order = _order(array.strides, array.shape)
        inner = array.transpose(order)
        kept = self._add(inner.tobytes(), aligned=True)
        return "a", array.dtype.str, tuple(inner.shape), _inverse(order), kept

    def _picture(self, picture: Any, depth: int) -> Layout:
        if picture.mode not in _MODES:
            raise Unstorable(f"pictures of mode {picture.mode}")
        info = self.lay(dict(picture.info), depth + 1)
        return "P", picture.mode, tuple(picture.size), info, self._add(picture.tobytes())

    def _add(self, part: bytes, aligned: bool = False) -> int:
        """Returns how many bytes it is."""
        if aligned and self._bytes % _ALIGNED:
            self._append(bytes(-self._bytes % _ALIGNED))
        self._append(part)
        return len(part)

    def _append(self, part: bytes) -> None:
        self.parts.append(part)
        self._bytes += len(part)


class _Reading:
    """Reads parts from a body in the order in which they were written."""

    def __init__(self, torch: ModuleType, body: memoryview, copied: bool) -> None:
        self._torch = torch
        self._body = body
        self._copied = copied
        self._at = 0

    def take(self, layout: Layout) -> Any:
        kind = layout[0]
        if kind == "t":
            return self._tensor(*layout[1:])
        if kind == "I":
            return _NUMBER.unpack(self._next(layout[1]))[0]
        if kind in ("T", "L"):
            parts = [self.take(part) for part in layout[1]]
            return tuple(parts) if kind == "T" else parts
        if kind == "D":
            return {key: self.take(part) for key, part in zip(layout[1], layout[2], strict=True)}
        if kind == "M":
            return Marked(self.take(layout[1]))
        if kind in ("a", "g"):
            return self._array(kind, *layout[1:])
        if kind == "P":
            return self._picture(*layout[1:])
        return self._plain(kind, layout)

    def _plain(self, kind: str, layout: Layout) -> object:
        if kind == "N":
            return None
        if kind == "B":
            return bool(layout[1])
        part = bytes(self._next(layout[1]))
        if kind == "J":
            return int(part, 16)
        if kind == "F":
            return _REAL.unpack(part)[0]
        return part.decode("utf-8", "surrogatepass") if kind == "S" else part

    def _tensor(self, name: str, shape: list[int], order: list[int], size: int) -> object:
        dtype = getattr(self._torch, name)
        at = self._begin(size, aligned=True)
        if size:
            inner = self._torch.frombuffer(self._body, dtype=dtype, count=prod(shape), offset=at)
        else:
            inner = self._torch.empty(0, dtype=dtype)
        tensor = inner.view(shape)
        if order != sorted(order):
            tensor = tensor.permute(order)
        return tensor.clone() if self._copied else tensor

    def _array(self, kind: str, dtype: str, *rest: Any) -> object:
        import numpy

        if kind == "g":
            return numpy.frombuffer(self._next(rest[0], aligned=True), dtype=dtype)[0]
        shape, order, size = rest
        part = self._next(size, aligned=True)
        inner = numpy.frombuffer(part, dtype=dtype) if prod(shape) else numpy.empty(0, dtype=dtype)
        array = inner.reshape(shape).transpose(order)
        return array.copy(order="K") if self._copied else array

    def _picture(self, mode: str, size: list[int], info: Layout, length: int) -> object:
        from PIL import Image

        told = self.take(info)
        picture = Image.frombytes(mode, (size[0], size[1]), bytes(self._next(length)))
        picture.info = told
        return picture

    def _next(self, size: int, aligned: bool = False) -> memoryview:
        at = self._begin(size, aligned)
        return self._body[at : at + size]

    def _begin(self, size: int, aligned: bool) -> int:
        """Where the next ``size`` bytes begin."""
        at = self._at + (-self._at % _ALIGNED if aligned else 0)
        self._at = at + size
        if self._at > len(self._body):
            raise ValueError("the sample is cut short")
        return at


def _order(strides: Any, shape: Any) -> list[int]:
    """The dimensions from slowest to fastest changing in memory."""
    return sorted(range(len(shape)), key=lambda n: -abs(strides[n]))


def _inverse(order: list[int]) -> tuple[int, ...]:
    return tuple(sorted(range(len(order)), key=order.__getitem__))
