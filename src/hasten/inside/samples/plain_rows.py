"""Data sets of a script's own whose samples are rows of tensors or arrays that they hold: ``self.x[i],
self.y[i]``, windows of some (``self.data[i : i + self.length]``), and either as another type (``.float()``,
``torch.tensor(...)``).

Their ``__getitem__`` is run on stand-ins for the data set, the index and torch. These can do nothing but what
is looked for, so whatever else it does raises: it calculates with a row, it asks for the index, it calls
something. As it finds nothing else by name, and catches nothing, it can do nothing else either, and does the
same with every index.
"""

from __future__ import annotations

import dis
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from types import CodeType, FunctionType, ModuleType
from typing import Any, NoReturn

_OPEN = (
    "LOAD_NAME", "IMPORT", "STORE_GLOBAL", "DELETE_GLOBAL", "DEREF", "MAKE_FUNCTION", "YIELD", "GENERATOR",
    "SETUP_", "WITH", "PUSH_EXC_INFO", "LOAD_SPECIAL",
)  # fmt: skip
_GET: Any = object.__getattribute__
_TYPES = {"float": "float32", "double": "float64", "long": "int64", "int": "int32", "half": "float16"}
_MADE = {"as_tensor": "", "tensor": "", "from_numpy": "", "FloatTensor": "float32", "LongTensor": "int64"}
_TAKE_TYPES = ("as_tensor", "tensor")
_PLAIN = (int, bool, type(None))  # of attributes whose values a data set may go by
Layout = tuple[Any, ...] | None
"""What a sample is: one part, None; several in a tuple or a list, (); a dict, its keys."""


@dataclass(frozen=True)
class Part:
    """Of a sample: a row of what the data set holds by this ``name``, so many after the sample's own, or as
    many rows as ``length`` says. ``kind``: the name of torch's type that it is turned into, if not "".
    ``of_array``: only an array is. ``of_several``: numbers, as one alone means something else.
    """

    name: str
    offset: int = 0
    length: int | None = None
    kind: str = ""
    of_array: bool = False
    of_several: bool = False


def parts_in_rows(torch: ModuleType, dataset: Any) -> tuple[tuple[Part, ...], Layout]:
    """The parts of a sample, and its layout; nothing where samples may be something else. Whether what is
    held are tensors or arrays is not looked at.
    """
    kind = type(dataset)
    item = getattr(kind, "__getitem__", None)
    if not isinstance(item, FunctionType) or kind.__getattribute__ is not _GET:
        return (), None
    code, own = item.__code__, getattr(dataset, "__dict__", {})
    known = tuple((name, own[name]) for name in code.co_names if type(own.get(name, own)) in _PLAIN)
    torches = frozenset(name for name in code.co_names if item.__globals__.get(name) is torch)
    read, parts, layout = _parts(code, known, tuple(type(value) for _, value in known), torches)
    return (parts if all(name in own and not hasattr(kind, name) for name in read) else ()), layout


def laid_out(gathered: list[Any], layout: Layout) -> Any:
    """The batch: as samples of this layout are collated."""
    if layout is None:
        return gathered[0]
    return dict(zip(layout, gathered, strict=True)) if layout else gathered


@lru_cache(maxsize=64)
def _parts(
    code: CodeType, known: tuple[tuple[str, Any], ...], types: tuple[type, ...], torches: frozenset[str]
) -> tuple[tuple[str, ...], tuple[Part, ...], Layout]:
    """Attributes that are read, the parts that are returned and their layout, where some attributes' values
    are ``known``, of these ``types``, and these names are ``torches``; nothing where that is not clear.
    """
    if not _is_closed(code):
        return (), (), None
    holder = _Holder(dict(known))
    names: dict[str, Any] = {"__builtins__": {}, **dict.fromkeys(torches, _Torch())}  # all that it can name
    try:
        found = FunctionType(code, names)(holder, _Index(0))
    except Exception:  # whatever it is, it does more than that
        return (), (), None
    layout: Layout = tuple(found) if type(found) is dict else () if type(found) in (tuple, list) else None
    rows = [found] if layout is None else list(found.values()) if layout else found
    if not all(type(one) is _Rows for one in rows):
        return (), (), None
    return tuple(_GET(holder, "read")), tuple(_GET(one, "part") for one in rows), layout


def _is_closed(code: CodeType) -> bool:
    """Whether it reaches nothing outside but by its names, catches no error, and compares no identities but
    None's.
    """
    ones = list(dis.get_instructions(code))
    compared = (before for before, one in pairwise(ones) if one.opname == "IS_OP")
    with_none = all(one.opname == "LOAD_CONST" and one.argval is None for one in compared)
    return with_none and not any(part in one.opname for one in ones for part in _OPEN)


# ---- stand-ins
class _Unclear(Exception):
    pass


class _Opaque:
    """It can do nothing but be given on."""

    __slots__ = ("offset", "part", "read", "values")

    def _unclear(self, *args: object) -> NoReturn:
        raise _Unclear

    __bool__ = __eq__ = __ne__ = __hash__ = __repr__ = __setattr__ = __delattr__ = _unclear

    def __getattribute__(self, name: str) -> Any:
        raise _Unclear


class _Index(_Opaque):
    """The sample's own, and so many more."""

    __slots__ = ()

    def __init__(self, offset: int) -> None:
        object.__setattr__(self, "offset", offset)

    def __add__(self, more: object) -> _Index:
        if type(more) is not int:
            raise _Unclear
        return _Index(_GET(self, "offset") + more)

    __radd__ = __add__

    def __sub__(self, less: object) -> _Index:
        return self + -less if type(less) is int else self + less


class _Column(_Opaque):
    """Something that is held."""

    __slots__ = ()

    def __init__(self, name: str) -> None:
        object.__setattr__(self, "part", Part(name))

    def __getitem__(self, index: object) -> _Rows:
        part = _GET(self, "part")
        if type(index) is _Index:
            return _Rows(replace(part, offset=_GET(index, "offset")))
        if type(index) is not slice or {type(index.start), type(index.stop)} != {_Index}:
            raise _Unclear
        first, last = _GET(index.start, "offset"), _GET(index.stop, "offset")
        if index.step is not None or last <= first:
            raise _Unclear
        return _Rows(replace(part, offset=first, length=last - first))


class _Rows(_Opaque):
    __slots__ = ()

    def __init__(self, part: Part) -> None:
        object.__setattr__(self, "part", part)

    def __getattribute__(self, name: str) -> Callable[[], _Rows]:
        part = _GET(self, "part")
        if name not in _TYPES or part.kind:
            raise _Unclear
        return lambda: _Rows(replace(part, kind=_TYPES[name]))


class _Holder(_Opaque):
    """A data set, which notes what is read of it."""

    __slots__ = ()

    def __init__(self, values: Mapping[str, Any]) -> None:
        object.__setattr__(self, "read", [])
        object.__setattr__(self, "values", values)

    def __getattribute__(self, name: str) -> Any:
        _GET(self, "read").append(name)
        values = _GET(self, "values")
        return values[name] if name in values else _Column(name)


class _Torch(_Opaque):
    __slots__ = ()

    def __getattribute__(self, name: str) -> Any:
        if name in _TYPES or name in _TYPES.values():
            return _Type(_TYPES.get(name, name))
        if name not in _MADE:
            raise _Unclear

        def made(rows: object, dtype: object = None) -> _Rows:
            typed = type(dtype) is _Type
            if type(rows) is not _Rows or (dtype is not None and not (typed and name in _TAKE_TYPES)):
                raise _Unclear
            part, kind = _GET(rows, "part"), _GET(dtype, "part") if typed else _MADE[name]
            if part.kind or part.of_array:
                raise _Unclear
            several = name.endswith("Tensor")
            return _Rows(replace(part, kind=kind, of_array=name != "as_tensor", of_several=several))

        return made


class _Type(_Opaque):
    __slots__ = ()

    def __init__(self, name: str) -> None:
        object.__setattr__(self, "part", name)
