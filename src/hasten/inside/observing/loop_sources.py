"""The loops in the source of a function that runs, around the line that it has come to."""

from __future__ import annotations

import ast
import linecache
import warnings
from collections.abc import Iterator
from functools import lru_cache
from types import FrameType

_Function = (ast.FunctionDef, ast.AsyncFunctionDef)
_Loops = (ast.For, ast.AsyncFor, ast.While)
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
            if not isinstance(one, (*_Function, ast.Lambda, ast.ClassDef)):
                nodes.append(one)


def is_stored_within(node: ast.For) -> bool:
    """Whether its body changes what its turns are read from."""
    read = {_name(one) for part in (node.target, node.iter) for one in ast.walk(part)} - {""}
    stored = (one for line in node.body for one in ast.walk(line))
    return any(_name(one) in read for one in stored if isinstance(getattr(one, "ctx", None), ast.Store))


def _name(one: ast.AST) -> str:
    if isinstance(one, ast.Attribute):
        return one.attr
    return one.id if isinstance(one, ast.Name) else ""


def has_break(node: ast.For) -> bool:
    """Whether it, and no loop within it, is left by one."""
    todo: list[ast.AST] = list(node.body)
    while todo:
        one = todo.pop()
        if isinstance(one, ast.Break):
            return True
        if isinstance(one, _Loops):
            todo += one.orelse
        elif isinstance(one, ast.stmt | ast.excepthandler | ast.match_case) and not isinstance(
            one, _Function
        ):
            todo += ast.iter_child_nodes(one)
    return False
