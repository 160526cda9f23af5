"""What a new worker process would find: the state of the dataset and of the functions that make batches.

A worker is a copy of the training process as it was when the worker was started. It may stay for another
epoch only if a new one would find the same. So all is looked at that samples can be made from: attributes by
value, tensors by their version, arrays by their bytes, random generators by their state, closures, and the
globals that the script's own functions name.

What is not seen: single elements of arrays of more than 16 MB (some are looked at), what lies deeper than
``_DEEPEST`` or beyond the first ``_MOST`` objects, objects of compiled libraries, which are known by their
identity, and generators that an installed library keeps for itself. Files that a worker opened on first use
(h5py, lmdb, zip) count as nothing.
"""

from __future__ import annotations

import dis
import marshal
import os
import sys
import time
import types
import zlib
from array import array
from collections.abc import Iterator
from functools import lru_cache, partial
from itertools import islice
from pathlib import PurePath
from statistics import fmean
from typing import Any

from ..package import PACKAGE
from .sampling_proof import stream_of

_DEEPEST = 10
_MOST = 20_000  # objects that are looked into
_WHOLE_BYTES = 2**24  # of an array or list whose elements all count by value; of larger ones, some
_SOME = 2**20
_FILES = ("h5py", "lmdb", "zipfile")  # by the module of their type
_PLAIN = (int, float, complex, str, bytes, type(None))  # bool, too
_FUNCTIONS = (types.FunctionType, types.MethodType, partial)

State = dict[str, int]
"""Name of a part -> digest. To be compared with one of the same process, or of one forked from it."""


def visible_state(dataset: object, *functions: object) -> State:
    """Of a dataset and the functions (or None) that make batches of it and begin its workers. What cannot be
    looked at, since it raises, is different each time.
    """
    try:
        return _state(dataset, functions)
    except Exception as error:
        return {f"{type(error).__name__}: {error}": time.monotonic_ns()}


def _state(dataset: object, functions: tuple[object, ...]) -> State:
    look = _Look()
    told: State = {}
    kind = type(dataset).__name__
    for name, value in sorted(_attributes(dataset), key=_name):
        told[f"{kind}.{name}"] = look.digest(value)
    for number, function in enumerate(functions):
        told[f"{getattr(function, '__name__', type(function).__name__)} ({number})"] = look.digest(function)
    told[kind] = look.digest(dataset)
    return told


def difference(then: State, now: State) -> str:
    """The name of what differs; "" where nothing does."""
    if then == now:
        return ""
    return next((name for name in {**now, **then} if then.get(name) != now.get(name)), "")


class _Look:
    """One walk over objects; what was met before counts by its number alone."""

    def __init__(self) -> None:
        self._met: dict[int, int] = {}
        self._held: list[object] = []  # so that no id is used twice

    def digest(self, value: object) -> int:
        return zlib.crc32(repr(self._tell(value, _DEEPEST)).encode("utf-8", "surrogatepass"))

    def _tell(self, value: Any, depth: int) -> object:
        if isinstance(value, _PLAIN) and type(value) in (*_PLAIN, bool):
            return value if not isinstance(value, (str, bytes)) else (len(value), zlib.crc32(_bytes(value)))
        if type(value).__module__.partition(".")[0] in _FILES:
            return None
        if id(value) in self._met:
            return ("met", self._met[id(value)])
        if not depth or len(self._met) >= _MOST:
            return ("not looked into", id(value))
        self._met[id(value)] = len(self._met)
        self._held.append(value)
        return self._look_into(value, depth - 1)

    def _look_into(self, value: Any, depth: int) -> object:
        stream = stream_of(value)
        if stream is not None:
            return stream
        if isinstance(value, (list, tuple, set, frozenset, dict)):
            return self._elements(value, depth)
        if hasattr(value, "element_size"):
            return _tensor(value)
        if hasattr(value, "tobytes") and hasattr(value, "dtype"):
            return _array(value)
        if isinstance(value, PurePath):
            return str(value)
        if isinstance(value, types.ModuleType):
            return id(value)
        if isinstance(value, _FUNCTIONS):
            return self._function(value, depth)
        if isinstance(value, type):
            return self._class(value, depth)
        return self._object(value, depth)

    def _elements(self, value: Any, depth: int) -> object:
        size = _plain_bytes(value)
        if size is not None and size <= _WHOLE_BYTES:
            try:
                return (len(value), zlib.crc32(marshal.dumps(value, 2)))  # 2: by value, not by reference
            except ValueError:  # something in it is not plain after all
                pass
        parts = dict.items(value) if isinstance(value, dict) else value
        listed = [one for pair in parts for one in pair] if isinstance(value, dict) else list(parts)
        identities = zlib.crc32(array("Q", map(id, listed)).tobytes())
        return (len(listed), identities, [self._tell(one, depth) for one in _some(listed)])

    def _function(self, value: Any, depth: int) -> object:
        if isinstance(value, types.MethodType):
            return [self._tell(part, depth) for part in (value.__self__, value.__func__)]
        if isinstance(value, partial):
            return [self._tell(part, depth) for part in (value.func, value.args, value.keywords)]
        if _is_librarys(value.__module__):
            return id(value)
        told = [self._tell(part, depth) for part in (value.__defaults__, value.__kwdefaults__)]
        for cell in value.__closure__ or ():
            try:
                told.append(self._tell(cell.cell_contents, depth))
            except ValueError:  # not filled yet
                told.append(None)
        asked, attributes = _names(value.__code__)
        for name in sorted(asked & value.__globals__.keys()):
            found = value.__globals__[name]
            told.append((name, self._tell(found, depth)))
            if isinstance(found, types.ModuleType) and not _is_librarys(found.__name__):
                named = sorted(attributes & vars(found).keys())
                told += [self._tell(vars(found)[one], depth) for one in named]
        return (id(value.__code__), told)

    def _class(self, value: type, depth: int) -> object:
        """The script's own: its attributes, and what its methods name."""
        if _is_librarys(value.__module__):
            return id(value)
        return [
            (name, self._tell(getattr(part, "__func__", getattr(part, "fget", part)), depth))
            for name, part in vars(value).items()
            if not (name.startswith("__") and not callable(part))
        ]

    def _object(self, value: Any, depth: int) -> object:
        told: list[object] = [self._tell(kind, depth) for kind in type(value).__mro__[:-1]]
        attributes = sorted(_attributes(value), key=_name)
        frames = getattr(getattr(value, "_mgr", None), "blocks", ())  # of a pandas DataFrame or Series
        if type(value).__module__.startswith("pandas.") and frames:
            attributes += [("blocks", [block.values for block in frames])]
        told += [(name, self._tell(part, depth)) for name, part in attributes]
        return told if attributes else (id(value), told)


def _attributes(value: Any) -> Iterator[tuple[str, object]]:
    held = getattr(value, "__dict__", None)
    if isinstance(held, dict):
        yield from ((str(name), part) for name, part in held.items())
    for kind in type(value).__mro__:
        slots = vars(kind).get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else tuple(slots):
            if isinstance(vars(kind).get(name), types.MemberDescriptorType) and hasattr(value, name):
                yield name, getattr(value, name)


def _name(pair: tuple[str, object]) -> str:
    return pair[0]


def _tensor(value: Any) -> object:
    try:
        version = value._version
    except RuntimeError:  # of inference mode
        version = None
    return ("tensor", id(value), version, tuple(value.shape))


def _array(value: Any) -> object:
    flags = getattr(value, "flags", None)
    if not value.ndim:
        return value.tobytes()
    if flags is not None and not flags.writeable:
        return ("array", id(value), value.shape)
    if value.nbytes > _WHOLE_BYTES:
        value = value[:: max(1, len(value) // max(1, _SOME * len(value) // value.size))]
        value = value if value.nbytes <= _WHOLE_BYTES else value[:1].reshape(-1)[:_SOME]
    return ("array", value.shape, str(value.dtype), zlib.crc32(value.tobytes()))


def _some(values: list[Any]) -> list[Any]:
    return values if len(values) <= _MOST else values[:: len(values) // _MOST + 1]


def _plain_bytes(value: Any, depth: int = 4) -> float | None:
    """About how many bytes plain values take, in containers too, by the first of each; None where something
    is not plain.
    """
    if type(value) in (*_PLAIN, bool):
        return sys.getsizeof(value)
    if type(value) not in (list, tuple, set, frozenset, dict) or not depth:
        return None
    sizes = [
        _plain_bytes(one, depth - 1) for one in islice(value.items() if type(value) is dict else value, 32)
    ]
    if not sizes:
        return 0.0
    known = [size for size in sizes if size is not None]
    return fmean(known) * len(value) if len(known) == len(sizes) else None


@lru_cache(maxsize=4096)
def _names(code: types.CodeType) -> tuple[frozenset[str], frozenset[str]]:
    """The globals that code asks for, that of functions within it too; and all names in it."""
    asked = {
        step.argval for step in dis.get_instructions(code) if step.opname in ("LOAD_GLOBAL", "LOAD_NAME")
    }
    every = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            inner = _names(constant)
            asked |= inner[0]
            every |= inner[1]
    return frozenset(asked), frozenset(every)


def _is_librarys(name: str | None) -> bool:
    """Whether a module came with Python or was installed: its globals are not the script's to change."""
    if name == "__main__":
        return False
    path = getattr(sys.modules.get(name or ""), "__file__", None) or ""
    return not path or any(part in path for part in _INSTALLED)


_INSTALLED = (
    *(f"site-packages{os.sep}", f"dist-packages{os.sep}", os.path.dirname(os.__file__) + os.sep),
    PACKAGE + os.sep,  # what techniques put in the place of a class's methods
)


def _bytes(value: str | bytes) -> bytes:
    return value.encode("utf-8", "surrogatepass") if isinstance(value, str) else value
