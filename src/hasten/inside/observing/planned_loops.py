"""How long a training will be, as the loops around its steps say.

``for epoch in range(args.epochs)`` says so, long before the script ends. At the end of a step, the functions
that led there are on the stack: their sources show the loops around the line that they have come to, and
their variables how often these go round, and which turn this is. Nothing of the script is called: names,
attributes and items of plain objects are looked up, whole numbers calculated. A loop that cannot be read so
makes the length unknown, and so does one whose turn does not agree with the steps that were taken.

It is what the script means to do: a training may end before, and another may follow.
"""

from __future__ import annotations

import ast
import linecache
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import prod
from types import FrameType, ModuleType, SimpleNamespace
from typing import Any

from ...records.whole_run import ENDLESS_STEPS

_AROUND = ("enumerate", "tqdm", "tqdm_notebook", "track", "progress_bar", "master_bar")  # yield what they get
_LEAST_TURNS = 4  # that say how many steps come in each
_PLAIN = tuple(kind.__getattribute__ for kind in (object, ModuleType, SimpleNamespace))
_Function = (ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(frozen=True)
class Loop:
    """It goes round ``turns`` times, of which ``done`` are over."""

    turns: int
    done: int


LOADER, OTHER = "loader", "other"
Around = Sequence[Loop | str]
"""Loops around a step, outer ones first. LOADER: over the batches of a loader; OTHER: it cannot be read."""


class _Unread(Exception):
    """It cannot be known without calling the script's code."""


def planned_steps(around: Around, taken: int, epoch_steps: int | None, epochs: int) -> int | None:
    """Steps of the whole training, None if these loops do not say, or go on until something stops them.
    ``taken``: so far; ``epoch_steps``: in a pass over its loader, None if unknown; ``epochs``: passes that
    are over.
    """
    found = _steps_of(around, taken, epoch_steps, epochs)
    return found if found is not None and found < ENDLESS_STEPS else None


def _steps_of(around: Around, taken: int, epoch_steps: int | None, epochs: int) -> int | None:
    """By the loops around the first that is over a loader, or that cannot be read. Each turn is a step, as in
    the Trainer of transformers, or a pass over the loader, whose loop may be the one that cannot be read if
    the steps of the passes that are over agree with it. If all can be read, each turn may be several steps,
    or each step several turns.
    """
    read = next((at for at, loop in enumerate(around) if isinstance(loop, str)), len(around))
    loops = [loop for loop in around[:read] if isinstance(loop, Loop)]
    if not loops:
        return None
    turns, done = prod(loop.turns for loop in loops), 0
    for loop in loops:
        done = done * loop.turns + loop.done
    all_read, begun = read == len(around), done + 1
    if taken and begun >= _LEAST_TURNS:
        in_step = taken == begun or (all_read and (taken % begun == 0 or begun % taken == 0))
        if in_step:
            return turns * taken // begun
    if all_read or not epoch_steps or done != epochs or (around[read] == OTHER and not done):
        return None
    return turns * epoch_steps if _agree(taken, done, epoch_steps) else None


def _agree(taken: int, done: int, epoch_steps: int) -> bool:
    """Whether so many steps can be in the pass after those that are done, give or take one in each."""
    return done * (epoch_steps - 1) <= taken <= (done + 1) * (epoch_steps + 1)


def loops_around(
    frame: FrameType | None, passed: Callable[[FrameType], bool], loader: type, runs: str = ""
) -> Around:
    """Those of ``frame`` and of its callers but for those that are ``passed``: torch's, for example.
    ``loader``: the class of loaders. ``runs``: the file whose code runs the script, and is called by no part
    of it.
    """
    found: list[Loop | str] = []
    while frame is not None and frame.f_code.co_filename != runs:
        if not passed(frame):
            found[:0] = _loops_in(frame, loader)
        frame = frame.f_back
    return found


def _loops_in(frame: FrameType, loader: type) -> list[Loop | str]:
    body = _body_of(frame)
    if body is None:
        return [OTHER]
    line = frame.f_lineno
    loops = [one for one in _within(body) if one.lineno <= line <= (one.end_lineno or 0)]
    return [_loop(one, frame, loader) for one in loops]


def _body_of(frame: FrameType) -> ast.AST | None:
    """The source of the function that it runs; None if there is none."""
    code = frame.f_code
    try:
        tree = ast.parse("".join(linecache.getlines(code.co_filename, frame.f_globals)))
    except (SyntaxError, ValueError):
        return None
    if code.co_name == "<module>":
        return tree if tree.body else None
    named = (one for one in ast.walk(tree) if isinstance(one, _Function) and one.name == code.co_name)
    return next((one for one in named if code.co_firstlineno in _first_lines(one)), None)


def _first_lines(one: ast.FunctionDef | ast.AsyncFunctionDef) -> tuple[int, ...]:
    return (one.lineno, *(mark.lineno for mark in one.decorator_list[:1]))


def _within(body: ast.AST) -> Iterator[ast.For | ast.AsyncFor | ast.While]:
    """Its loops, outer ones first, without those of functions that it defines."""
    for one in ast.iter_child_nodes(body):
        if isinstance(one, (ast.For, ast.AsyncFor, ast.While)):
            yield one
        if not isinstance(one, (*_Function, ast.Lambda, ast.ClassDef)):
            yield from _within(one)


def _loop(node: ast.For | ast.AsyncFor | ast.While, frame: FrameType, loader: type) -> Loop | str:
    try:
        if isinstance(node, ast.While):
            return _counted_up(node.test, frame)
        over, counted = _iterated(node.iter, frame)
        while "tqdm" in type(over).__module__:
            over = _attribute(over, "iterable")
        if isinstance(over, loader):
            return LOADER
        if type(over) is not range:
            return OTHER
        target = node.target.elts[0] if counted and isinstance(node.target, ast.Tuple) else node.target
        at = _value(target, frame)
        if not counted:
            at = over.index(at) if _is_whole(at) and at in over else -1
    except _Unread:
        return OTHER
    return Loop(len(over), at) if _is_whole(at) and 0 <= at < len(over) else OTHER


def _counted_up(test: ast.expr, frame: FrameType) -> Loop | str:
    """``while epoch < epochs``, taken for turns: the steps so far tell whether they are."""
    if not (isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], ast.Lt)):
        return OTHER
    at, end = _value(test.left, frame), _value(test.comparators[0], frame)
    return Loop(end, at) if _is_whole(at) and _is_whole(end) and 0 <= at < end else OTHER


def _iterated(node: ast.expr, frame: FrameType) -> tuple[Any, bool]:
    """What a loop goes over, and whether it counts that, as ``enumerate`` does."""
    if not isinstance(node, ast.Call):
        return _value(node, frame), False
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    if name in ("range", "trange"):
        numbers = [_value(one, frame) for one in node.args]
        if not (1 <= len(numbers) <= 3 and all(map(_is_whole, numbers)) and numbers[2:] != [0]):
            raise _Unread
        return range(*numbers), False
    if (
        name not in _AROUND
        or not node.args
        or (name == "enumerate" and len(node.args) + len(node.keywords) > 1)
    ):
        raise _Unread
    over, counted = _iterated(node.args[0], frame)
    if counted and name == "enumerate":
        raise _Unread
    return over, counted or name == "enumerate"


def _value(node: ast.expr, frame: FrameType) -> Any:
    """Of an expression. Raises _Unread where the script's code would run."""
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Name):
        for names in (frame.f_locals, frame.f_globals):
            if node.id in names:
                return names[node.id]
    if isinstance(node, ast.Attribute):
        return _attribute(_value(node.value, frame), node.attr)
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
        return _item(_value(node.value, frame), node.slice.value)
    if isinstance(node, ast.BinOp):
        return _calculated(node.op, _value(node.left, frame), _value(node.right, frame))
    raise _Unread


def _attribute(one: object, name: str) -> Any:
    """What is kept in the object itself, or in its class, where nothing has to be called for it."""
    kept = getattr(one, "__dict__", {}) if type(one).__getattribute__ in _PLAIN else {}
    if name in kept:
        return kept[name]
    content = kept.get("_content")  # OmegaConf's, of nodes that hold a value
    if isinstance(content, dict) and name in content:
        return vars(content[name]).get("_val", content[name])
    if isinstance(one, dict) and dict.__contains__(one, name):
        return _item(one, name)
    for kind in one.__mro__ if isinstance(one, type) else type(one).__mro__:
        if _is_whole(vars(kind).get(name)):
            return vars(kind)[name]
    raise _Unread


def _item(one: object, key: object) -> Any:
    try:
        if isinstance(one, dict):
            return dict.__getitem__(one, key)
        if isinstance(one, list | tuple) and _is_whole(key):
            return list(one)[key]  # type: ignore[call-overload]
    except (LookupError, TypeError):
        pass
    raise _Unread


def _calculated(how: ast.operator, left: object, right: object) -> int:
    if isinstance(left, int) and isinstance(right, int):
        if isinstance(how, ast.Add):
            return left + right
        if isinstance(how, ast.Sub):
            return left - right
        if isinstance(how, ast.Mult):
            return left * right
        if isinstance(how, ast.FloorDiv) and right:
            return left // right
    raise _Unread


def _is_whole(value: object) -> bool:
    return type(value) is int
