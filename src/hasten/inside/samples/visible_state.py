"""What a new worker process would find: the state of the dataset and of the functions that make batches.

A worker is a copy of the training process as it was when the worker was started. It may stay for another
epoch only if a new one would find the same. So everything is looked at that samples can be made from:
attributes by value, tensors by their version and bytes, arrays by their bytes, random generators by their
state, closures, what ``functools.lru_cache`` counted, and the globals that the script's own functions name.
Iterators without attributes (generators, itertools) cannot be looked at, so they always count as changed.

Containers of more than ``_FEW`` objects come last, each with a limit of its own. If everything else has more
than ``_MOST`` objects, the state counts as changed.

Some changes are not seen:

- in objects of a large container beyond the first ``_MOST``, and deeper than ``_DEEPEST``; paths, and tuples
  of them and of plain values, all count;
- in single elements of arrays of more than 16 MB (some are looked at);
- in the bytes of tensors of more than 16 MB, or on a GPU;
- within objects of compiled libraries, which are known by their identity;
- in generators that an installed library keeps for itself.

Files that a worker opened on first use (h5py, lmdb, zip) do not count.
"""

from __future__ import annotations

import ctypes
import io
import logging
import marshal
import sys
import time
import types
import zlib
from array import array
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from operator import itemgetter
from pathlib import PurePath
from typing import Any

from ..class_names import module_of
from ..random_state import state_of_generator
from .contents import WHOLE_BYTES, array_state, buffer_state, is_plain, plain_bytes, rows_digest, tensor_state
from .script_code import is_librarys, named_by, parts_of

_DEEPEST = 10
_MOST = 20_000  # objects that are looked into, and again for each container that has many
_MOST_LARGE = 5  # such containers
_FEW = 64  # objects in a container that is looked into at once
_MOST_BYTES = 2**26  # of all tensors
_FILES = ("h5py", "lmdb", "zipfile")  # by the module of their type
_CONTAINERS = (list, tuple, set, frozenset, deque)
_OF_C = (ctypes._SimpleCData, ctypes.Array, ctypes.Structure, ctypes.Union)  # as in multiprocessing.Value
_FUNCTIONS = (types.FunctionType, types.MethodType, partial)

State = dict[str, int]
"""Name of a part -> digest. To be compared with one of the same process, or of one forked from it."""


def visible_state(dataset: object, *functions: object, lenient: bool = False) -> State:
    """The state of a dataset and of the functions (or None) that make its batches and start its workers. If
    looking at it raises, the state is different each time. So it is if there is too much to look at, unless
    ``lenient``: then that is left out, and so is what caches have counted.
    """
    try:
        look = _looked_at(dataset, functions, lenient)
    except Exception as error:
        return {f"{type(error).__name__}: {error}": time.monotonic_ns()}
    if look.left_out and not lenient:
        kind = type(dataset).__name__
        look.told[f"what {kind} holds, too much to be looked at,"] = time.monotonic_ns()
    return look.told


def generators_of(dataset: object) -> list[object]:
    """The random generators that a dataset can draw from, as far as known: in its attributes, and in globals
    and closures of its functions.
    """
    try:
        return _looked_at(dataset, (), True).generators
    except Exception:  # what the script's own objects raise when they are looked at
        return []


def name_of_first(dataset: object, wanted: Callable[[object], bool]) -> str:
    """The name of the part in which something is ``wanted``, as far as is looked; "" if nothing is."""
    look = _Look(lenient=True, wanted=wanted, bytes_read=0)
    with suppress(Exception):  # what the script's own objects raise when they are looked at
        _look_at(look, dataset, ())
    return look.found


def _looked_at(dataset: object, functions: tuple[object, ...], lenient: bool) -> _Look:
    look = _Look(lenient)
    _look_at(look, dataset, functions)
    return look


def _look_at(look: _Look, dataset: object, functions: tuple[object, ...]) -> None:
    kind = type(dataset).__name__
    for name, value in sorted(_attributes(dataset), key=itemgetter(0)):
        look.look_at(f"{kind}.{name}", value)
    for number, function in enumerate(functions):
        look.look_at(f"{getattr(function, '__name__', type(function).__name__)} ({number})", function)
    look.look_at(kind, dataset)
    look.look_at_large()


def difference(then: State, now: State) -> str:
    """The name of what differs; "" if nothing does."""
    if then == now:
        return ""
    return next((name for name in {**now, **then} if then.get(name) != now.get(name)), "")


class _Look:
    """One walk over objects. An object that was met before is only noted by its number. ``left_out``:
    something was not looked at. ``lenient``: what caches have counted is not looked at. ``found``: the name
    of the first part that is ``wanted``. ``bytes_read``: of tensors, at most.
    """

    def __init__(
        self,
        lenient: bool = False,
        wanted: Callable[[object], bool] | None = None,
        bytes_read: int = _MOST_BYTES,
    ) -> None:
        self.told: State = {}
        self.left_out = False
        self.generators: list[object] = []  # of random numbers
        self._lenient = lenient
        self._met: dict[int, int] = {}
        self._held: list[object] = []  # so that no id is used twice
        self._name = ""
        self._large: list[tuple[str, list[object], int]] = []  # with the name and the depth
        self._most = _MOST
        self._bytes_left = bytes_read
        self._wanted = wanted
        self.found = ""

    def look_at(self, name: str, value: object) -> None:
        self._name = name
        self.told[name] = _digest(self._tell(value, _DEEPEST))

    def look_at_large(self) -> None:
        """Look at large containers, which were left for the end, and then at those within them."""
        for number, (name, values, depth) in enumerate(self._large):
            if number == _MOST_LARGE:
                self.left_out = True
                return
            self._name, self._most = name, len(self._met) + _MOST
            for one in _some(values):  # each by itself: all of them at once would start a garbage collection
                self.told[name] = _digest(self._tell(one, depth), self.told[name])

    def _tell(self, value: Any, depth: int) -> object:
        if is_plain(value):
            return value if not isinstance(value, (str, bytes)) else (len(value), zlib.crc32(_bytes(value)))
        if isinstance(value, PurePath):
            return str(value)
        usual = type(value) in (*_CONTAINERS, dict)
        if not usual and module_of(type(value)).partition(".")[0] in _FILES:
            return None
        if id(value) in self._met:
            return ("met", self._met[id(value)])
        if not depth or len(self._met) >= self._most:
            self.left_out |= bool(depth) and self._most == _MOST
            return ("not looked into", id(value))
        self._met[id(value)] = len(self._met)
        self._held.append(value)
        if self._wanted is not None and not self.found and self._wanted(value):
            self.found = self._name
        return self._elements(value, depth - 1) if usual else self._look_into(value, depth - 1)

    def _look_into(self, value: Any, depth: int) -> object:
        if isinstance(value, type):  # before it is taken for what it makes
            return self._class(value, depth)
        stream = state_of_generator(value)
        if stream is not None:
            self.generators.append(value)
            return stream
        if isinstance(value, (*_CONTAINERS, dict)):
            return self._elements(value, depth)
        if hasattr(value, "element_size"):
            told, read = tensor_state(value, self._bytes_left)
            self._bytes_left -= read
            return told
        if hasattr(value, "tobytes") and hasattr(value, "dtype"):
            return array_state(value)
        if isinstance(value, (bytearray, array, memoryview, *_OF_C)):
            return buffer_state(value)
        if _is_iterator(value):
            return ("iterator", time.monotonic_ns())
        if isinstance(value, (types.ModuleType, logging.Logger, logging.Handler)):
            return id(value)
        if isinstance(value, _FUNCTIONS):
            return self._function(value, depth)
        return self._object(value, depth)

    def _elements(self, value: Any, depth: int) -> object:
        size = plain_bytes(value)
        if size is not None and size <= WHOLE_BYTES:
            try:
                return (len(value), zlib.crc32(marshal.dumps(value, 2)))  # 2: by value, not by reference
            except ValueError:  # something in it is not plain after all
                pass
        if isinstance(value, dict):
            listed = [one for pair in dict.items(value) for one in pair]
        else:
            kind = next(kind for kind in _CONTAINERS if isinstance(value, kind))
            listed = list(kind.__iter__(value))
        told: list[object] = [len(listed), zlib.crc32(array("Q", map(id, listed)).tobytes())]
        if type(value) not in (*_CONTAINERS, dict):
            told.append(self._object(value, depth))
        if len(listed) <= _FEW:
            told += [self._tell(one, depth) for one in listed]
        elif (digest := rows_digest(listed)) is not None:
            told.append(digest)
        else:
            self._large.append((self._name, listed, depth))
        return told

    def _function(self, value: Any, depth: int) -> object:
        if isinstance(value, types.MethodType):
            return [self._tell(part, depth) for part in (value.__self__, value.__func__)]
        if isinstance(value, partial):
            return [self._tell(part, depth) for part in (value.func, value.args, value.keywords)]
        if is_librarys(value.__module__):
            return id(value)
        parts = (value.__defaults__, value.__kwdefaults__, *vars(value).values())
        told = [self._counted(value), *(self._tell(part, depth) for part in parts)]
        for cell in value.__closure__ or ():
            try:
                told.append(self._tell(cell.cell_contents, depth))
            except ValueError:  # not filled yet
                told.append(None)
        told += [(name, self._tell(found, depth)) for name, found in named_by(value)]
        return (id(value.__code__), told)

    def _class(self, value: type, depth: int) -> object:
        """The script's own: its attributes, and what its methods name."""
        if is_librarys(value.__module__):
            return id(value)
        return [(name, self._tell(part, depth)) for name, part in parts_of(value)]

    def _object(self, value: Any, depth: int) -> object:
        told: list[object] = [self._tell(kind, depth) for kind in type(value).__mro__[:-1]]
        told.append(self._counted(value))
        attributes = sorted(_attributes(value), key=itemgetter(0))
        frames = getattr(getattr(value, "_mgr", None), "blocks", ())  # of a pandas DataFrame or Series
        if module_of(type(value)).startswith("pandas.") and frames:
            attributes += [("blocks", [block.values for block in frames])]
        told += [(name, self._tell(part, depth)) for name, part in attributes]
        return told if attributes else (id(value), told)

    def _counted(self, value: object) -> object:
        return None if self._lenient else _counted(value)


def _attributes(value: Any) -> Iterator[tuple[str, object]]:
    held = getattr(value, "__dict__", None)
    if isinstance(held, dict):
        yield from ((str(name), part) for name, part in held.items())
    for kind in type(value).__mro__:
        slots = vars(kind).get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else tuple(slots):
            if isinstance(vars(kind).get(name), types.MemberDescriptorType) and hasattr(value, name):
                yield name, getattr(value, name)


def _counted(function: object) -> object:
    """What the cache of a function has counted, of ``functools.lru_cache`` or like it; None without one, and
    where a library keeps it for functions of its own.
    """
    counts = getattr(function, "cache_info", None)
    if not callable(counts) or isinstance(function, type):
        return None
    module, name = getattr(function, "__module__", None), getattr(function, "__name__", "")
    if is_librarys(module) and getattr(sys.modules.get(module or ""), name, None) is function:
        return None
    return repr(counts())


def _is_iterator(value: object) -> bool:
    """Whether it is an iterator of a compiled class, whose attributes do not show its state; not a file."""
    step = getattr(type(value), "__next__", None)
    return step is not None and not isinstance(step, types.FunctionType) and not isinstance(value, io.IOBase)


def _digest(told: object, before: int = 0) -> int:
    return zlib.crc32(repr(told).encode("utf-8", "surrogatepass"), before)


def _some(values: list[Any]) -> list[Any]:
    return values if len(values) <= _MOST else values[:: len(values) // _MOST + 1]


def _bytes(value: str | bytes) -> bytes:
    return value.encode("utf-8", "surrogatepass") if isinstance(value, str) else value
