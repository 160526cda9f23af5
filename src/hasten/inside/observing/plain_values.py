"""What expressions of a script are worth, as far as that is known without running any of its code."""

from __future__ import annotations

import ast
import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from inspect import CO_OPTIMIZED
from types import FrameType, ModuleType, SimpleNamespace
from typing import Any, TypeGuard

from ..class_names import module_of
from .loop_sources import called

_AROUND = ("enumerate", "tqdm", "tqdm_notebook", "track", "progress_bar", "master_bar")  # yield what they get
_REFERENCES = 3  # to a frame's copy of its variables: the frame's, ours, and that of whoever counts them
_OWN: dict[str, Any] = {"len": len, "min": min, "max": max, "int": int}
_OF_ONE_LENGTH = (tuple, str, range)
_PLAIN = tuple(kind.__getattribute__ for kind in (object, ModuleType, SimpleNamespace))
Names = Mapping[str, Any]


class Unread(Exception):
    """It cannot be known without calling the script's code."""


def keeps_its_variables(frame: FrameType, body: ast.AST) -> bool:
    """Whether the script may hold the frame's copy of its variables, which changes when we look at them.
    ``body``: the source of what the frame runs. ``vars(args)`` is of something else.
    """
    if not _has_copy(frame) or not {"locals", "vars"}.intersection(frame.f_code.co_names):
        return False
    of_others = {
        id(one.func)
        for one in ast.walk(body)
        if isinstance(one, ast.Call) and called(one) == "vars" and one.args
    }
    names = (one for one in ast.walk(body) if isinstance(one, ast.Name) and one.id in ("locals", "vars"))
    return any(id(one) not in of_others for one in names)


def _has_copy(frame: FrameType) -> bool:
    return sys.version_info < (3, 13) and bool(frame.f_code.co_flags & CO_OPTIMIZED)


@contextmanager
def names_of(frame: FrameType) -> Iterator[Names]:
    """The frame's variables. Before Python 3.13 it keeps a copy, which would keep a batch in memory."""
    own = frame.f_locals
    try:
        yield {**frame.f_globals, **own}
    finally:
        if _has_copy(frame) and sys.getrefcount(own) <= _REFERENCES:  # else somebody else holds it, too
            own.clear()


def iterated(node: ast.expr, names: Names) -> tuple[Any, int | None]:
    """What a loop goes over, and the number of its first turn if it counts them, as ``enumerate`` does."""
    if not isinstance(node, ast.Call):
        return value(node, names), None
    name = called(node)
    if name in ("range", "trange"):
        numbers = [value(one, names) for one in node.args]
        if not (1 <= len(numbers) <= 3 and all(map(is_whole, numbers)) and numbers[2:] != [0]):
            raise Unread
        return range(*numbers), None
    if name not in _AROUND or not node.args:
        raise Unread
    over, start = iterated(node.args[0], names)
    if name != "enumerate":
        return over, start
    given = [*node.args[1:], *(word.value for word in node.keywords)]
    first = value(given[0], names) if given else 0
    if start is not None or not is_whole(first):
        raise Unread
    return over, first


def value(node: ast.expr, names: Names) -> Any:
    """Of an expression. Raises Unread where the script's code would run."""
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Name) and node.id in names:
        return names[node.id]
    if isinstance(node, ast.Attribute):
        return attribute(value(node.value, names), node.attr)
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
        return _item(value(node.value, names), node.slice.value)
    if isinstance(node, ast.BinOp):
        return _calculated(node.op, value(node.left, names), value(node.right, names))
    if isinstance(node, ast.Call) and not node.keywords:
        return _called(node, names)
    raise Unread


def _called(node: ast.Call, names: Names) -> Any:
    """What Python's own functions and a tensor's ``size`` give of plain objects."""
    of, given = node.func, [value(one, names) for one in node.args]
    if isinstance(of, ast.Name) and names.get(of.id, _OWN.get(of.id)) is _OWN.get(of.id, Unread):
        if of.id == "len" and len(given) == 1:
            return _length(given[0])
        if given and all(type(one) in (int, float) for one in given):
            return _computed(_OWN[of.id], given)
    if isinstance(of, ast.Attribute):
        owner = value(of.value, names)
        if owner is math and of.attr in ("ceil", "floor") and len(given) == 1:
            return _computed(getattr(math, of.attr), given)
        if of.attr == "size" and _has_shape(owner) and all(map(is_whole, given)):
            return _item(tuple(owner.shape), given[0]) if given else tuple(owner.shape)
    raise Unread


def _computed(function: Callable[..., Any], given: Sequence[Any]) -> Any:
    try:
        return function(*given)
    except (TypeError, ValueError, OverflowError):
        raise Unread from None


def _length(one: Any) -> int:
    if type(one) in _OF_ONE_LENGTH:
        return len(one)
    if _has_shape(one) and one.shape:
        return int(one.shape[0])
    raise Unread


def _has_shape(one: object) -> bool:
    """Whether it is a tensor or an array, of no class of the script's."""
    return type(one).__name__ in ("Tensor", "ndarray") and module_of(type(one)) in ("torch", "numpy")


def kept(one: object) -> Names:
    """What is kept in the object itself, where nothing has to be called for it."""
    return getattr(one, "__dict__", {}) if type(one).__getattribute__ in _PLAIN else {}


def attribute(one: object, name: str) -> Any:
    """What is kept in the object itself, or in its class."""
    if name == "shape" and _has_shape(one):
        return tuple(one.shape)  # type: ignore[attr-defined]
    own = kept(one)
    if name in own:
        return own[name]
    content = own.get("_content")  # OmegaConf's, of nodes that hold a value
    if type(content) is dict and name in content:
        return kept(content[name]).get("_val", content[name])
    if isinstance(one, dict) and dict.__contains__(one, name):
        return _item(one, name)
    kinds = one.__mro__ if isinstance(one, type) else type(one).__mro__
    found = next((vars(kind)[name] for kind in kinds if name in vars(kind)), None)
    if not is_whole(found):
        raise Unread
    return found


def _item(one: object, key: object) -> Any:
    try:
        if isinstance(one, dict):
            return dict.__getitem__(one, key)
        if isinstance(one, list | tuple) and is_whole(key):
            return list(one)[key]
    except (LookupError, TypeError):
        pass
    raise Unread


def _calculated(how: ast.operator, left: Any, right: Any) -> int | float:
    if is_whole(left) and is_whole(right):
        if isinstance(how, ast.Div) and right:
            return left / right
        if isinstance(how, ast.Add):
            return left + right
        if isinstance(how, ast.Sub):
            return left - right
        if isinstance(how, ast.Mult):
            return left * right
        if isinstance(how, ast.FloorDiv) and right:
            return left // right
    raise Unread


def is_whole(value: object) -> TypeGuard[int]:
    return type(value) is int
