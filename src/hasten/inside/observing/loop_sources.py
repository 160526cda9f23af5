"""The loops in the source of a function that runs, around the line that it has come to."""

from __future__ import annotations

import ast
import linecache
import warnings
from collections.abc import Iterator, Sequence
from functools import lru_cache
from types import FrameType

_Function = (ast.FunctionDef, ast.AsyncFunctionDef)
_Loops = (ast.For, ast.AsyncFor, ast.While)
_Definitions = (*_Function, ast.Lambda, ast.ClassDef)
_WRAPPERS = {"range", "enumerate", "tqdm", "zip", "print"}
_OF_SIZES = {"len", "size", "int", "min", "max", "ceil", "floor"}  # what calls of these give is as steady
_Comprehension = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def body_of(frame: FrameType) -> ast.AST | None:
    """The source of the function that it runs; None if there is none."""
    code = frame.f_code
    tree = _parsed("".join(linecache.getlines(code.co_filename, frame.f_globals)))
    if tree is None or code.co_name == "<module>":
        return tree
    named = (one for one in ast.walk(tree) if isinstance(one, _Function) and one.name == code.co_name)
    return next((one for one in named if code.co_firstlineno in _first_lines(one)), None)


@lru_cache(maxsize=16)
def _parsed(source: str) -> ast.Module | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Python has told of the script's, and keeps libraries' to itself
            tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return None
    return tree if tree.body else None


def _first_lines(one: ast.FunctionDef | ast.AsyncFunctionDef) -> tuple[int, ...]:
    return (one.lineno, *(mark.lineno for mark in one.decorator_list[:1]))


def around_line(body: ast.AST, line: int) -> Iterator[ast.AST]:
    """Its loops around a line, outer ones first, without those of functions that it defines."""
    nodes = [body]
    while nodes:
        for one in ast.iter_child_nodes(nodes.pop()):
            first = getattr(one, "lineno", line)
            if not first <= line <= (getattr(one, "end_lineno", None) or line):
                continue
            if isinstance(one, (*_Loops, *_Comprehension)):
                yield one
            if not isinstance(one, _Definitions):
                nodes.append(one)


def may_change(node: ast.For, counts: bool) -> bool:
    """Whether what its turns are read from may not be what it was when it began: what it goes over and, where
    that ``counts`` the turns, what each of them is given.
    """
    target, over = _names_in([node.target], ast.Store), _names_in([node.iter])
    read = target | over if counts else over
    return bool(target & over) or bool(_names_in(node.body, ast.Store) & read)


def _names_in(nodes: Sequence[ast.AST], context: type[ast.expr_context] = ast.expr_context) -> set[str]:
    """Names, and those of attributes with a dot."""
    found = [
        one for node in nodes for one in ast.walk(node) if isinstance(getattr(one, "ctx", None), context)
    ]
    names = {one.id for one in found if isinstance(one, ast.Name)}
    return names | {f".{one.attr}" for one in found if isinstance(one, ast.Attribute)}


def is_left_early(node: ast.AST, but: Sequence[ast.AST | None] = ()) -> bool:
    """Whether a loop may be left within a turn, by a comparison, such as of the steps with the most there may
    be, or by what the loop itself sets. A flag, as for trying a script out, counts as never set. ``but``:
    apart from these statements.
    """
    return any(compared is not False for compared in _exits(node, but))


def is_always_left(node: ast.AST) -> bool:
    """Whether a turn leaves the loop unless something fails, as when it only tries again. After an inner loop
    that goes on to the next turn where it ends by itself, ``break`` is for where it does not.
    """
    inner = (one for one in ast.walk(node) if isinstance(one, _Loops) and one is not node)
    goes_on = any(isinstance(last, ast.Continue) for one in inner for last in one.orelse)
    return not goes_on and None in _exits(node)


def _exits(node: ast.AST, but: Sequence[ast.AST | None] = ()) -> Iterator[bool | None]:
    """For each statement that leaves the loop, whether a comparison decides, or what the loop sets: False for
    a flag, None for nothing.
    """
    body = list(getattr(node, "body", ()))
    set_here = _names_in(body, ast.Store)
    todo: list[tuple[ast.AST, bool | None, bool]] = [(line, None, True) for line in body]
    while todo:
        one, compared, own = todo.pop()
        if any(one is other for other in but):
            continue
        if isinstance(one, ast.Return) or (own and isinstance(one, ast.Break)):
            yield compared
        if isinstance(one, ast.If):
            decides = any(isinstance(part, ast.Compare) for part in ast.walk(one.test))
            compared = bool(compared) or decides or bool(_names_in([one.test]) & set_here)
        elif isinstance(one, (ast.ExceptHandler, ast.Match)):
            compared = True
        if isinstance(one, _Loops):
            otherwise = True if any(True for _ in _exits(one)) else compared
            todo += [(part, otherwise, own) for part in one.orelse]
            todo += [(part, compared, False) for part in one.body]
        elif not isinstance(one, _Definitions):
            todo += [(part, compared, own) for part in ast.iter_child_nodes(one)]


def named(expression: ast.expr) -> set[str]:
    """All names in it, and those of attributes with a dot."""
    return _names_in([expression])


def unsteady_names(frame: FrameType, body: ast.AST) -> frozenset[str]:
    """Names of what may be another thing, of another length, the next time: a function's own, unless its
    ``body`` makes them of others, and what is set in loops anywhere in its file.
    """
    code = frame.f_code
    own = () if code.co_name == "<module>" else (*code.co_varnames, *code.co_cellvars, *code.co_freevars)
    tree = _parsed("".join(linecache.getlines(code.co_filename, frame.f_globals)))
    in_loops = _set_in_loops(tree) if tree is not None else frozenset()
    return (frozenset(own) - _made_of_others(body, frozenset(own) | in_loops)) | in_loops


def _made_of_others(body: ast.AST, unsteady: frozenset[str]) -> frozenset[str]:
    """Those that it sets once, to what the rest of its names say: ``length = data.size(1)``."""
    within = list(ast.walk(body))
    given = [one.arg for one in within if isinstance(one, ast.arg)]
    set_here = [one.id for one in within if isinstance(one, ast.Name) and not isinstance(one.ctx, ast.Load)]
    found: set[str] = set()
    for one in within:  # in order, as far as a later one is made of an earlier one
        if not isinstance(one, ast.Assign):
            continue
        names = [ast.unparse(target) for target in one.targets]
        calls = (part for part in ast.walk(one.value) if isinstance(part, ast.Call))
        plain = all(called(call) in _OF_SIZES for call in calls)
        once = sum(map([*given, *set_here].count, names)) == 1
        if once and plain and not named(one.value) & (unsteady - found):
            found.update(names)
    return frozenset(found)


@lru_cache(maxsize=16)
def _set_in_loops(tree: ast.Module) -> frozenset[str]:
    loops = [one for one in ast.walk(tree) if isinstance(one, _Loops)]
    return frozenset(_names_in([part for loop in loops for part in loop.body], ast.Store))


def trains_elsewhere(node: ast.For | ast.While, line: int) -> bool:
    """Whether a turn may train in another place than around ``line``, too: in another loop, or by calling
    once more what is called there.
    """
    within = [one for part in node.body for one in ast.walk(part)]
    here = {called(one) for one in within if isinstance(one, ast.Call) and _covers(one, line)} - {""}
    others = [one for one in within if not _covers(one, line)]
    again = any(isinstance(one, ast.Call) and called(one) in here - _WRAPPERS for one in others)
    loops = [one for one in others if isinstance(one, _Loops)]
    return again or any(
        isinstance(one, ast.Call) and called(one) == "backward" for loop in loops for one in ast.walk(loop)
    )


def called(one: ast.Call) -> str:
    """The last part of the name that is called; "" if there is none."""
    return one.func.attr if isinstance(one.func, ast.Attribute) else getattr(one.func, "id", "")


def _covers(one: ast.AST, line: int) -> bool:
    first = getattr(one, "lineno", None)
    return first is not None and first <= line <= (getattr(one, "end_lineno", None) or first)
