"""How often a ``while`` loop goes round, where the script counts its turns and compares the count with a
limit: ``while step < steps:``, or ``if step >= steps: break`` in a loop without an end.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, replace

from .conditions import holds, parts_of, switched_off, used_in
from .loop_sources import is_always_left, is_left_early, trains_elsewhere
from .loops import Limited, Loop
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
    ``given``: what must hold, too, for it to leave.
    """

    count: ast.expr
    limit: ast.expr
    inclusive: bool
    line: int = 0
    leaves: ast.AST | None = None
    given: tuple[ast.expr, ...] = ()


@dataclass(frozen=True)
class _Raise:
    """Each turn of a loop raises its count ``by`` so much, in this ``line``."""

    by: int
    line: int


@dataclass(frozen=True)
class Function:
    """A function that runs. ``line``: that it has come to; ``unsteady``: names that may mean something else
    the next time.
    """

    body: ast.AST
    line: int
    names: Names
    unsteady: Set[str]


def counted_loop(loops: Sequence[ast.AST], around: Sequence[ast.AST], within: Function) -> Loop:
    """``loops``: a ``while`` and, perhaps, one in it, around the line that the function ``within`` has come
    to; ``around``: those around them. The inner one counts its turns and is left by their count; two loops
    are as one then. Raises Unread if nothing of the kind is known of them.
    """
    outer, inner = loops[0], loops[-1]
    if not isinstance(outer, ast.While) or not isinstance(inner, (ast.For, ast.While)) or len(loops) > 2:
        raise Unread
    if any(map(is_always_left, loops)):
        raise Unread
    checks = [(check, by) for check in _checks(inner) if (by := _raise_of(check, outer, inner)) is not None]
    known = {_shown(check) for check, _ in checks}
    if any(_shown(check) not in known for loop in (outer, inner) for check in _orders(loop)):
        raise Unread  # it may end by something else
    found, unsure = list[Loop](), not all(_is_known(part, known) for part in parts_of(outer.test, ast.And))
    for check, by in checks:
        if outer is not inner and ends_early(outer, around, within, but=[check.leaves]):
            raise Unread
        try:
            if (loop := _read(check, by, outer, inner, around, within)) is not None:
                found.append(loop)
        except Unread:
            unsure = True
    if not found:
        raise Unread
    first = min(found, key=lambda loop: loop.turns)
    return replace(first, early=first.early or unsure)


def limited_pass(loop: ast.For, around: Sequence[ast.AST], within: Function) -> Limited | None:
    """``loop``, which is left early, by a count that goes on in the passes that ``around`` it begin; None if
    there is no such limit in this run. Raises Unread if it is left by anything else.
    """
    outermost = around[0] if around else loop
    raised = {
        id(one.target): ast.unparse(one.target)
        for one in ast.walk(outermost)
        if isinstance(one, ast.AugAssign)
    }
    checks = [check for check in _checks(loop) if ast.unparse(check.count) in raised.values()]
    if len(checks) != 1 or ends_early(loop, around, within, but=[checks[0].leaves]):
        raise Unread
    (check,) = checks
    if check.leaves is None or any(isinstance(one, ast.Or) for one in ast.walk(check.leaves)):
        raise Unread  # the other part may end it
    anew = {ast.unparse(one) for one in _set_in(outermost) if id(one) not in raised}
    if ast.unparse(check.count) in anew or used_in((check.limit, *check.given)) & stored_in(outermost):
        raise Unread
    if not all(holds(one, within.names) for one in check.given):
        return None
    counted, limit = value(check.count, within.names), value(check.limit, within.names)
    if not (is_whole(counted) and is_whole(limit)):
        raise Unread
    return Limited(limit + check.inclusive, counted, len(around))


def ends_early(
    loop: ast.AST, around: Sequence[ast.AST], within: Function, but: Sequence[ast.AST | None] = ()
) -> bool:
    """Whether it may be left within a turn in this run, by anything ``but`` these statements. ``around``:
    the loops around it.
    """
    changing = stored_in(around[0] if around else loop)
    off = switched_off(loop, changing, within.names, within.unsteady)
    return is_left_early(loop, but=[*but, *off])


def _shown(check: _Check) -> tuple[str, str]:
    return ast.unparse(check.count), ast.unparse(check.limit)


def _is_known(part: ast.expr, known: Set[tuple[str, str]]) -> bool:
    """Whether a part of a loop's test is true, or one of these comparisons."""
    of_count = any(_shown(check) in known for check in _compared(part, (ast.Lt, ast.LtE)))
    return of_count or (isinstance(part, ast.Constant) and bool(part.value))


def _raise_of(check: _Check, outer: ast.While, inner: ast.For | ast.While) -> _Raise | None:
    """What counts the turns of ``inner``, if nothing else sets the count."""
    count = ast.unparse(check.count)
    if _stored(outer).count(count) > 1:
        return None
    return next((found for one in _each_turn(inner.body) if (found := _raised(one, count))), None)


def _read(
    check: _Check,
    raised: _Raise,
    outer: ast.While,
    inner: ast.For | ast.While,
    around: Sequence[ast.AST],
    within: Function,
) -> Loop | None:
    """None if it never leaves the loop."""
    line, names, count = within.line, within.names, ast.unparse(check.count)
    changing = {name for loop in (outer, *around) for name in _stored(loop)}
    used = used_in((check.limit, *check.given))
    if used & changing:
        raise Unread
    if not all(holds(one, names) for one in check.given):
        return None
    at, limit, begin = value(check.count, names), value(check.limit, names), _begin(within.body, outer, count)
    if not (is_whole(at) and is_whole(limit)):
        raise Unread
    turns, done = _turns(check, raised, line, at - begin, limit - begin)
    early = any(ends_early(one, around, within, but=[check.leaves]) for one in (outer, inner))
    anew = _is_set_before(outer, around[-1] if around else within.body, count)
    sure, elsewhere = not used & within.unsteady, trains_elsewhere(outer, line)
    return Loop(turns, done, early, elsewhere, anew, sure)


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
    yield from _orders(loop)
    for one in _each_turn(loop.body):
        if isinstance(one, ast.If) and any(isinstance(last, (ast.Break, ast.Return)) for last in one.body):
            parts = parts_of(one.test, ast.And)
            for part in parts:
                given = tuple(other for other in parts if other is not part)
                for either in parts_of(part, ast.Or):
                    yield from _compared(either, (ast.GtE, ast.Gt), one, given)


def _orders(loop: ast.For | ast.While) -> Iterator[_Check]:
    """Those in the test of the loop itself, all of which must hold for it to go on."""
    for part in parts_of(loop.test, ast.And) if isinstance(loop, ast.While) else ():
        yield from _compared(part, (ast.Lt, ast.LtE))


def _compared(
    test: ast.expr,
    kinds: tuple[type[ast.cmpop], type[ast.cmpop]],
    leaves: ast.If | None = None,
    given: tuple[ast.expr, ...] = (),
) -> Iterator[_Check]:
    """``kinds``: to compare a count with a limit that it may not reach, and with one that it may."""
    if not isinstance(test, ast.Compare) or len(test.ops) != 1:
        return
    how, (right,) = type(test.ops[0]), test.comparators
    for count, kind, limit in ((test.left, how, right), (right, _MIRRORED.get(how), test.left)):
        if kind in kinds:
            yield _Check(count, limit, kind is kinds[1], leaves.lineno if leaves else 0, leaves, given)


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
    if ast.unparse(target) != count or not is_whole(found) or found <= 0:
        return None
    return _Raise(found, one.lineno)


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


def _is_set_before(loop: ast.AST, part: ast.AST, count: str) -> bool:
    """Whether ``part`` sets it, and does not only raise it, before it comes to the loop."""
    raised = {id(one.target) for one in ast.walk(part) if isinstance(one, ast.AugAssign)}
    first = getattr(loop, "lineno", 0)
    return any(
        ast.unparse(one) == count and id(one) not in raised and getattr(one, "lineno", first) < first
        for one in _set_in(part)
    )


def stored_in(part: ast.AST) -> frozenset[str]:
    """What it sets."""
    return frozenset(_stored(part))


def _stored(part: ast.AST) -> list[str]:
    """What it sets, once for each place."""
    return [ast.unparse(one) for one in _set_in(part)]


def _set_in(part: ast.AST) -> Iterator[ast.AST]:
    return (one for one in ast.walk(part) if isinstance(getattr(one, "ctx", None), (ast.Store, ast.Del)))
