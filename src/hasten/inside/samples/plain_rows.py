"""Data sets of a script's own whose samples are rows of tensors that they hold: ``self.x[i], self.y[i]``, or
one of them, or a dict of them.

Their ``__getitem__`` is run on stand-ins for the data set and the index. These can do nothing but what is
looked for, so whatever else it does raises: it calculates, it asks for the index, it calls something. Where
it names nothing from outside and catches nothing, it can do nothing else either, and does the same with every
index.
"""

from __future__ import annotations

import dis
from functools import lru_cache
from itertools import pairwise
from types import CodeType, FunctionType
from typing import Any, NoReturn

_OPEN = (
    "GLOBAL", "NAME", "DEREF", "MAKE_FUNCTION", "YIELD", "GENERATOR", "SETUP_", "WITH", "PUSH_EXC_INFO",
    "LOAD_SPECIAL",
)  # fmt: skip
_VARIABLE, _KEYWORDS = 0x04, 0x08  # flags of a function that takes any arguments
_GET: Any = object.__getattribute__
Layout = tuple[Any, ...] | None
"""What a sample is: one row, None; several in a tuple or a list, (); a dict, its keys."""


def tensors_in_rows(dataset: Any) -> tuple[tuple[Any, ...], Layout]:
    """What a sample has a row of each of, in order, and its layout; nothing where samples may be something
    else. Whether these are tensors is not looked at.
    """
    kind, own = type(dataset), getattr(dataset, "__dict__", {})
    item = getattr(kind, "__getitem__", None)
    if not isinstance(item, FunctionType) or kind.__getattribute__ is not _GET:
        return (), None
    code = item.__code__
    empty = frozenset(name for name in code.co_names if own.get(name, code) is None)
    read, returned, layout = _attributes(code, empty)
    known = all(name in own and not hasattr(kind, name) for name in read)
    return tuple(own[name] for name in returned) if known else (), layout


def laid_out(gathered: list[Any], layout: Layout) -> Any:
    """The batch: as samples of this layout are collated."""
    if layout is None:
        return gathered[0]
    return dict(zip(layout, gathered, strict=True)) if layout else gathered


@lru_cache(maxsize=64)
def _attributes(code: CodeType, empty: frozenset[str]) -> tuple[tuple[str, ...], tuple[str, ...], Layout]:
    """Attributes that are read, and those of which a row each is returned, where those that are ``empty`` are
    None; nothing where that is not clear.
    """
    arguments = code.co_argcount, code.co_kwonlyargcount, code.co_flags & (_VARIABLE | _KEYWORDS)
    if arguments != (2, 0, 0) or not _is_closed(code):
        return (), (), None
    holder = _Holder(empty)
    try:
        found = FunctionType(code, {})(holder, _Opaque())
    except Exception:  # whatever it is, it does more than that
        return (), (), None
    layout: Layout = tuple(found) if type(found) is dict else () if type(found) in (tuple, list) else None
    rows = [found] if layout is None else list(found.values()) if layout else found
    if not all(type(one) is _Row for one in rows):
        return (), (), None
    return tuple(_GET(holder, "read")), tuple(_GET(row, "name") for row in rows), layout


def _is_closed(code: CodeType) -> bool:
    """Whether it names nothing from outside, catches no error, and compares no identities but None's."""
    ones = list(dis.get_instructions(code))
    compared = (before for before, one in pairwise(ones) if one.opname == "IS_OP")
    with_none = all(one.opname == "LOAD_CONST" and one.argval is None for one in compared)
    return with_none and not any(part in one.opname for one in ones for part in _OPEN)


class _Unclear(Exception):
    pass


class _Opaque:
    """It can do nothing but be given on."""

    __slots__ = ("name", "read")

    def _unclear(self, *args: object) -> NoReturn:
        raise _Unclear

    __bool__ = __eq__ = __ne__ = __hash__ = __repr__ = __str__ = __format__ = _unclear
    __setattr__ = __delattr__ = _unclear

    def __getattribute__(self, name: str) -> Any:
        raise _Unclear


class _Row(_Opaque):
    __slots__ = ()

    def __init__(self, name: str) -> None:
        object.__setattr__(self, "name", name)


class _Column(_Row):
    __slots__ = ()

    def __getitem__(self, index: object) -> _Row:
        if type(index) is not _Opaque:
            raise _Unclear
        return _Row(_GET(self, "name"))


class _Holder(_Opaque):
    """A data set, which notes what is read of it."""

    __slots__ = ("empty",)

    def __init__(self, empty: frozenset[str]) -> None:
        object.__setattr__(self, "read", [])
        object.__setattr__(self, "empty", empty)

    def __getattribute__(self, name: str) -> Any:
        _GET(self, "read").append(name)
        return None if name in _GET(self, "empty") else _Column(name)
