"""A digest of a data set's content, the same in every process that makes the same data set.

It includes the attributes at every level: numbers, strings, arrays and tensors by value, functions by their
code, other objects by class and attributes, or by what pickle would write. For the script's own functions and
classes it also includes what their code names: globals, attributes of its modules, environment variables.
Anything that cannot be covered is named, and such a data set gets no digest.
"""

from __future__ import annotations

import ctypes
import enum
import functools
import hashlib
import io
import logging
import marshal
import mmap
import os
import pathlib
import pickle
import random
import re
import sys
import threading
import types
from collections.abc import Callable
from importlib.machinery import EXTENSION_SUFFIXES
from typing import Any

from ..class_names import module_of
from .script_code import environment_named_by, is_librarys, named_by, parts_of

_MOST_DEPTH = 200
_BY_REPR = (complex, range, slice, re.Pattern, enum.Enum, pathlib.PurePath)
_NO_SAMPLES = {"__init__", "__new__", "__repr__", "__str__"}  # methods that do not make samples
_CACHED = type(functools.lru_cache(len))
_BY_NAME = (
    logging.Logger,
    logging.Handler,
    types.ModuleType,
    type(threading.Lock()),
    type(threading.RLock()),
)


class NoDigest(Exception):
    """The message names what has no value to compare."""


def lasting_digest(value: object) -> str:
    """The digest of a data set's content. Raises NoDigest if something in it cannot be covered."""
    digest = _Digest()
    digest.add(value, 0)
    return digest.hexdigest()


class _Digest:
    def __init__(self) -> None:
        self._hash = hashlib.blake2b(digest_size=20)
        self._seen: dict[int, int] = {}  # id -> number, for things that can contain themselves
        self._held: list[object] = []  # keeps ids from being reused
        self._classes: set[type] = set()

    def hexdigest(self) -> str:
        return self._hash.hexdigest()

    def add(self, value: Any, depth: int) -> None:
        kind = type(value)
        if depth > _MOST_DEPTH:
            raise NoDigest(f"{kind.__qualname__} objects that are nested too deeply")
        if value is None or kind in (bool, int, float, str, bytes):
            self._put(kind.__name__, repr(value))
            return
        if id(value) in self._seen:
            self._put("again", str(self._seen[id(value)]))
            return
        self._seen[id(value)] = len(self._seen)
        self._held.append(value)
        self._put(f"{module_of(kind)}.{kind.__qualname__}")
        self._own_class(kind, depth)
        find(kind, value)(self, value, depth + 1)

    def _put(self, *parts: str | bytes) -> None:
        for part in parts:
            data = part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part
            self._hash.update(len(data).to_bytes(8, "little"))
            self._hash.update(data)

    # ---- kinds of values
    def sequence(self, value: Any, depth: int) -> None:
        self._put(str(len(value)))
        if type(value) in (list, tuple) and _is_plain(value):
            self._put("plain", marshal.dumps(value, 0))
            return
        for part in value:
            self.add(part, depth)

    def mapping(self, value: Any, depth: int) -> None:
        self._put(str(len(value)))
        for key, item in value.items():
            self.add(key, depth)
            self.add(item, depth)

    def unordered(self, value: Any, depth: int) -> None:
        self._put(*sorted(lasting_digest(part) for part in value))

    def tensor(self, value: Any, depth: int) -> None:
        self._put(str(value.dtype), str(tuple(value.shape)), str(value.device))
        plain = value.detach().cpu().contiguous()
        size = plain.numel() * plain.element_size()
        if size:
            self._hash.update((ctypes.c_char * size).from_address(plain.data_ptr()))

    def array(self, value: Any, depth: int) -> None:
        numpy = sys.modules["numpy"]
        self._put(value.dtype.str, str(value.shape))
        if _is_in_a_file(numpy, value):
            begin = numpy.frombuffer(value._mmap, numpy.uint8).ctypes.data  # views keep the whole's offset
            place = value.offset // mmap.ALLOCATIONGRANULARITY * mmap.ALLOCATIONGRANULARITY
            place += value.ctypes.data - begin
            # that the file is unchanged is checked elsewhere
            self._put(os.path.abspath(value.filename), str(place), str(value.strides))
        elif value.dtype.hasobject:
            for part in value.ravel().tolist():
                self.add(part, depth)
        else:
            self._hash.update(numpy.ascontiguousarray(value).reshape(-1).view(numpy.uint8))

    def function(self, value: Any, depth: int) -> None:
        self._put(value.__module__ or "", value.__qualname__)
        self.add(value.__code__, depth)
        cells = tuple(_content_of(cell) for cell in value.__closure__ or ())
        for part in (value.__defaults__, value.__kwdefaults__, cells, vars(value)):
            self.add(part, depth)
        if not is_librarys(value.__module__):
            self.mapping({**dict(named_by(value)), "environment": environment_named_by(value)}, depth)

    def cached(self, value: Any, depth: int) -> None:
        self.add(value.__wrapped__, depth)

    def code(self, value: Any, depth: int) -> None:
        self._put(value.co_code)
        for part in (value.co_names, value.co_varnames, value.co_consts):
            self.add(part, depth)

    def method(self, value: Any, depth: int) -> None:
        self.add(value.__func__, depth)
        self.add(value.__self__, depth)

    def builtin(self, value: Any, depth: int) -> None:
        self._put(str(getattr(value, "__module__", "")), value.__qualname__)
        if isinstance(value, type):
            self._own_class(value, depth)

    def _own_class(self, kind: type, depth: int) -> None:
        """What the script's classes hold for all of their objects: each is included once."""
        for one in kind.__mro__:
            if one in self._classes or is_librarys(one.__module__):
                continue
            self._classes.add(one)
            self._put("class", one.__qualname__)
            for name, part in parts_of(one):
                if name not in _NO_SAMPLES:
                    self._put(name)
                    self.add(part, depth + 1)

    def partial(self, value: Any, depth: int) -> None:
        for part in (value.func, value.args, value.keywords):
            self.add(part, depth)

    def by_repr(self, value: Any, depth: int) -> None:
        self._put(repr(value))

    def by_name(self, value: Any, depth: int) -> None:
        self._put(str(getattr(value, "name", None) or getattr(value, "__name__", "")))

    def file(self, value: Any, depth: int) -> None:
        """Include a file's name; that it is unchanged is checked elsewhere."""
        self._put(str(getattr(value, "name", "")), str(getattr(value, "mode", "")))

    def attributes(self, value: Any, depth: int) -> None:
        held = dict(vars(value)) if hasattr(value, "__dict__") else {}
        for kind in type(value).__mro__:
            names = vars(kind).get("__slots__", ())
            for name in (names,) if isinstance(names, str) else names:
                if name not in ("__dict__", "__weakref__") and hasattr(value, name):
                    held[name] = getattr(value, name)
        self.mapping(held, depth)
        if isinstance(value, (list, tuple)):
            self.sequence(list(value), depth)
        elif isinstance(value, dict):
            self.mapping(value, depth)

    def pickled(self, value: Any, depth: int) -> None:
        """Include what pickle writes for an object; it is never read back."""
        try:
            self._put(pickle.dumps(value, 4))
        except Exception:
            raise NoDigest(f"{type(value).__qualname__} objects") from None


Add = Callable[[_Digest, Any, int], None]


def find(kind: type, value: Any) -> Add:
    """How values of a kind are included."""
    if kind in (list, tuple):
        return _Digest.sequence
    if kind in (dict, types.MappingProxyType):
        return _Digest.mapping
    if kind in (set, frozenset):
        return _Digest.unordered
    if isinstance(value, type):  # before it is taken for what it makes
        return _Digest.builtin
    if hasattr(value, "element_size") and hasattr(value, "untyped_storage"):
        return _Digest.tensor
    if kind.__module__ == "numpy" and hasattr(value, "dtype") and hasattr(value, "tobytes"):
        return _Digest.array
    if isinstance(value, types.FunctionType):
        return _Digest.function
    if isinstance(value, types.CodeType):
        return _Digest.code
    if isinstance(value, types.MethodType):
        return _Digest.method
    if isinstance(value, _CACHED):
        return _Digest.cached
    if isinstance(value, (types.BuiltinFunctionType, types.WrapperDescriptorType)):
        return _Digest.builtin
    if isinstance(value, functools.partial):
        return _Digest.partial
    if isinstance(value, _BY_REPR) or (kind.__module__ == "torch" and kind.__name__ in ("dtype", "device")):
        return _Digest.by_repr
    if isinstance(value, _BY_NAME):
        return _Digest.by_name
    if isinstance(value, io.IOBase):
        return _Digest.file
    return _of_an_object(kind, value)


def _of_an_object(kind: type, value: Any) -> Add:
    if isinstance(value, random.Random) or kind.__name__ in ("Generator", "RandomState"):
        return _Digest.pickled if _can_be_pickled(value) else _stream
    if module_of(kind).partition(".")[0] == "pandas" or not all(map(_shows_all, kind.__mro__)):
        return _Digest.pickled
    slots = any("__slots__" in vars(one) for one in kind.__mro__[:-1])
    return _Digest.attributes if hasattr(value, "__dict__") or slots else _Digest.pickled


def _shows_all(kind: type) -> bool:
    """Whether all that objects of a class hold is in their attributes and elements. A compiled class keeps
    more where it cannot be seen.
    """
    if kind in (object, list, tuple, dict):
        return True
    module = getattr(sys.modules.get(module_of(kind)), "__file__", None) or ""
    made_by_class_statement = kind.__flags__ & (1 << 9) != 0  # Py_TPFLAGS_HEAPTYPE, of some compiled ones too
    return made_by_class_statement and not module.endswith(tuple(EXTENSION_SUFFIXES))


def _stream(digest: _Digest, value: Any, depth: int) -> None:
    state = getattr(value, "get_state", None)
    if state is None:
        raise NoDigest(f"{type(value).__qualname__} objects")
    digest.add(state(), depth)


def _can_be_pickled(value: object) -> bool:
    try:
        pickle.dumps(value, 4)
    except Exception:
        return False
    return True


def _is_in_a_file(numpy: Any, value: Any) -> bool:
    """Whether an array's values are those of a file on disk."""
    mapped = isinstance(value, numpy.memmap) and value.filename is not None and value.mode != "c"
    return mapped and getattr(value, "_mmap", None) is not None


def _content_of(cell: Any) -> object:
    try:
        return cell.cell_contents
    except ValueError:  # empty
        return None


def _is_plain(value: Any, depth: int = 4) -> bool:
    """Whether it holds only Python's own numbers and strings, in lists and tuples."""
    if depth == 0:
        return False
    for part in value:
        kind = type(part)
        if kind in (str, int, float, bool, bytes) or part is None:
            continue
        if kind not in (list, tuple) or not _is_plain(part, depth - 1):
            return False
    return True
