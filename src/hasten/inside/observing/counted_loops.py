"""How often a ``while`` loop goes round, where the script counts its turns and compares the count with a
limit: ``while step < steps:``, or ``if step >= steps: break`` in a loop without an end.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from .loop_sources import is_left_early, trains_elsewhere
from .loops import Loop
from .plain_values import Names, Unread, is_whole, value

_MIRRORED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.Gt,
    ast.LtE: ast.GtE,
    ast.Gt: ast.Lt,
    ast.GtE: ast.LtE,
}


@dataclass(frozen=True)
class _Check:
    """A loop goes on while ``count`` is below ``limit`` or, ``inclusive``, is the limit. ``line``: of the
    statement that ``leaves`` it; 0 for the test of the loop itself, which comes first in each turn.
    """

    count: ast.expr
    limit: ast.expr
    inclusive: bool
    line: int = 0
    leaves: ast.AST | None = None


@dataclass(frozen=True)
class _Raise:
    """Each turn raises a count ``by`` so much, in this ``line``."""

    by: int
    line: int


def counted_loop(loops: Sequence[ast.AST], line: int, names: Names, body: ast.AST) -> Loop:
    """``loops``: a ``while``, and those within it around ``line``, in the function ``body``. The innermost
    one counts its turns and is left by their count, so that all of them are as one. Raises Unread if nothing
    of the kind is known of them.
    """
    outer, inner = loops[0], loops[-1]
    if not isinstance(outer, ast.While) or not isinstance(inner, (ast.For, ast.While)):
        raise Unread
    stored = _stored(outer)
    for check in _checks(inner):
        count = ast.unparse(check.count)
        raised = next((found for one in _each_turn(inner.body) if (found := _raised(one, count))), None)
        if raised is None or stored.count(count) > 1:
            continue
        if any(ast.unparse(one) in stored for one in ast.walk(check.limit) if isinstance(one, ast.expr)):
            continue
        at, limit, begin = value(check.count, names), value(check.limit, names), _begin(body, outer, count)
        if is_whole(at) and is_whole(limit):
            turns, done = _turns(check, raised, line, at - begin, limit - begin)
            early = any(is_left_early(one, but=check.leaves) for one in (outer, inner))
            return Loop(turns, done, early, trains_elsewhere(outer, line), counted=True)
    raise Unread


def _turns(check: _Check, raised: _Raise, line: int, at: int, limit: int) -> tuple[int, int]:
    """In how many turns ``line`` is come to, and how many of these are over. ``at`` and ``limit`` since the
    loop began.
    """
    to_leave = limit // raised.by + 1 if check.inclusive else -(-limit // raised.by)  # values, the first is 0
    turns = to_leave - (raised.line < check.line) + (line < check.line)
    past, rest = divmod(at, raised.by)
    done = past - (raised.line < line)
    if rest or not 0 <= done < turns:
        raise Unread
    return turns, done


def _checks(loop: ast.For | ast.While) -> Iterator[_Check]:
    """All comparisons that may end it."""
    if isinstance(loop, ast.While):
        yield from (check for part in _parts(loop.test) for check in _read(part, (ast.Lt, ast.LtE)))
    for one in _each_turn(loop.body):
        if isinstance(one, ast.If) and any(isinstance(last, (ast.Break, ast.Return)) for last in one.body):
            for part in _parts(one.test):
                yield from _read(part, (ast.GtE, ast.Gt), one)


def _parts(test: ast.expr) -> list[ast.expr]:
    """Of ``a and b``."""
    return test.values if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And) else [test]


def _read(
    test: ast.expr, kinds: tuple[type[ast.cmpop], type[ast.cmpop]], leaves: ast.If | None = None
) -> Iterator[_Check]:
    """``kinds``: to compare a count with a limit that it may not reach, and with one that it may."""
    if not isinstance(test, ast.Compare) or len(test.ops) != 1:
        return
    how, (right,) = type(test.ops[0]), test.comparators
    for count, kind, limit in ((test.left, how, right), (right, _MIRRORED.get(how), test.left)):
        if kind in kinds:
            yield _Check(count, limit, kind is kinds[1], leaves.lineno if leaves else 0, leaves)


def _raised(one: ast.stmt, count: str) -> _Raise | None:
    """``count += 1`` and ``count = count + 1``."""
    target: ast.expr
    if isinstance(one, ast.AugAssign) and isinstance(one.op, ast.Add):
        target, by = one.target, one.value
    elif (
        isinstance(one, ast.Assign) and isinstance(one.value, ast.BinOp) and isinstance(one.value.op, ast.Add)
    ):
        target, by = one.targets[0], one.value.right
        if ast.unparse(one.value.left) != count:
            return None
    else:
        return None
    found = by.value if isinstance(by, ast.Constant) else None
    known = ast.unparse(target) == count and is_whole(found) and found > 0
    return _Raise(found, one.lineno) if known and is_whole(found) else None


def _begin(body: ast.AST, loop: ast.AST, count: str) -> int:
    """What it was when the loop began: 0 unless the function says otherwise, in one place."""
    within = set(map(id, ast.walk(loop)))
    set_to = [
        one.value
        for one in ast.walk(body)
        if isinstance(one, ast.Assign) and id(one) not in within and count in map(ast.unparse, one.targets)
    ]
    found = set_to[0].value if len(set_to) == 1 and isinstance(set_to[0], ast.Constant) else 0
    return found if is_whole(found) else 0


def _each_turn(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements that each turn comes to."""
    for one in body:
        yield one
        if isinstance(one, (ast.With, ast.AsyncWith)):
            yield from _each_turn(one.body)


def _stored(loop: ast.AST) -> list[str]:
    """What it sets, once for each place."""
    nodes = (one for one in ast.walk(loop) if isinstance(getattr(one, "ctx", None), (ast.Store, ast.Del)))
    return [ast.unparse(one) for one in nodes]
