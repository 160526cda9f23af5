"""Conditions of a script, as far as they are known without running any of its code."""

from __future__ import annotations

import ast
import operator
from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence, Set
from typing import Any

from .plain_values import Names, Unread, is_whole, value


def parts_of(test: ast.expr, how: type[ast.boolop]) -> list[ast.expr]:
    """Of ``a and b``, or of ``a or b``."""
    return test.values if isinstance(test, ast.BoolOp) and isinstance(test.op, how) else [test]


def used_in(parts: Sequence[ast.expr]) -> set[str]:
    """All expressions in them."""
    return {ast.unparse(one) for part in parts for one in ast.walk(part) if isinstance(one, ast.expr)}


_COMPARED: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}


def holds(test: ast.expr, names: Names) -> bool:
    """A condition of a script's: ``limit is not None``, ``limit > 0``, ``not trying``."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return not holds(test.operand, names)
    if isinstance(test, ast.Compare) and len(test.ops) == 1 and type(test.ops[0]) in _COMPARED:
        left, right = value(test.left, names), value(test.comparators[0], names)
        by_identity = isinstance(test.ops[0], (ast.Is, ast.IsNot))
        if by_identity or (is_whole(left) and is_whole(right)):
            return _COMPARED[type(test.ops[0])](left, right)
        raise Unread
    found = value(test, names)
    if found is not None and not isinstance(found, int):
        raise Unread
    return bool(found)


def switched_off(loop: ast.AST, changing: Set[str], names: Names, unsteady: Set[str]) -> Iterator[ast.If]:
    """Statements within it that do nothing in this run, as they ask for an option that was not given:
    ``if args.dry_run``, ``if args.most is not None and loss > args.most``. ``changing``: what may be set
    meanwhile; ``unsteady``: names that may mean something else the next time, as a function's number of the
    epoch. What else does not hold now may do later.
    """
    for one in ast.walk(loop):
        if isinstance(one, ast.If) and not one.orelse:
            parts = parts_of(one.test, ast.And)
            of_run = [part for part in parts if not used_in((part,)) & changing]
            if any(_is_off(part, names, unsteady, alone=len(parts) == 1) for part in of_run):
                yield one


def _is_off(part: ast.expr, names: Names, unsteady: Set[str], alone: bool) -> bool:
    """``alone``: it is the whole condition, which then has to be of options only, or a flag."""
    flag = part.operand if isinstance(part, ast.UnaryOp) else part
    is_given = isinstance(part, ast.Compare) and isinstance(part.ops[0], ast.IsNot)
    try:
        option = isinstance(flag, ast.Name) or _is_option(part, names, unsteady)
        return ((is_given and not alone) or option) and not holds(part, names)
    except Unread:
        return False


def _is_option(part: ast.expr, names: Names, unsteady: Set[str]) -> bool:
    """Whether it is made of constants, steady variables and options of the command line alone."""
    if isinstance(part, ast.Attribute):
        return type(value(part.value, names)) is Namespace
    if isinstance(part, ast.Name):
        return part.id not in unsteady
    inner = [one for one in ast.iter_child_nodes(part) if isinstance(one, ast.expr)]
    return isinstance(part, (ast.Constant, ast.UnaryOp, ast.Compare)) and all(
        _is_option(one, names, unsteady) for one in inner
    )
