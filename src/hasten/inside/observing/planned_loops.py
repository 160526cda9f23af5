"""How long a training will be, as the loops around its steps say.

``for epoch in range(args.epochs)`` and ``while step < steps`` say so, long before the script ends. At the end
of a step, the functions that led there are on the stack: their sources show the loops around the line that
they have come to, and their variables how often these go round, and which turn this is. Nothing of the script
is called: names, attributes and items of plain objects are looked up, whole numbers calculated. A loop that
cannot be read so makes the length unknown, and so does one whose turn does not agree with the steps that were
taken.

It is what the script means to do: a training may end before, and another may follow.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import accumulate
from math import prod
from types import FrameType
from typing import TypeGuard

from ...records.whole_run import ENDLESS_STEPS
from ..class_names import module_of
from .counted_loops import Function, counted_loop, ends_early, limited_pass
from .loop_sources import (
    around_line,
    body_of,
    is_always_left,
    may_change,
    named,
    trains_elsewhere,
    unsteady_names,
)
from .loops import CUT, LOADER, OTHER, Around, Limited, Loop
from .own_counts import own_count
from .plain_values import (
    Unread,
    attribute,
    is_whole,
    iterated,
    keeps_its_variables,
    names_of,
    value,
)

_LEAST_TURNS = 4  # that say that each is a step
_LEAST_LEFT = 2  # passes that say after how many steps each is left
_MANY_TURNS = 8  # that say how many steps come in each
_TURNS_IN_PART = 20  # likewise, the latest of which is not over
_RATE_ERROR = 0.2  # share of the steps by which two readings may err
_WRAPPED = {"accelerate": "base_dataloader", "lightning": "_dataloader", "lightning_fabric": "_dataloader"}


def planned_steps(
    around: Around, taken: int, epoch_steps: int | None, epochs: int, left_early: bool = False
) -> int | None:
    """Steps of the whole training, None if these loops do not say, or go on until something stops them.
    ``taken``: so far; ``epoch_steps``: in a pass over its loader, None if unknown; ``epochs``: passes that
    are over; ``left_early``: all of them after so many steps.
    """
    limits = [loop.limit for loop in around if _counts_steps(loop, taken)]
    plain = [loop if not isinstance(loop, Limited) else LOADER if limits else CUT for loop in around]
    found = _steps_of(plain, taken, epoch_steps, epochs, left_early)
    return min([found, *limits]) if found is not None and found < ENDLESS_STEPS else None


@dataclass(frozen=True)
class Reading:
    """The loops ``around`` the step of which ``taken`` includes the latest."""

    taken: int
    around: Around


def steps_at_this_rate(earlier: Reading, later: Reading) -> int | None:
    """Steps of the whole training, where it takes one in every so many turns, or leaves some out: as often as
    between two readings of the same loops. None if these are too near, or the loops do not say.

    Gradients are accumulated, for example, or an agent trains on what some turns have collected. Where there
    are loops in loops, it must have been so from the beginning: of an agent that trains 50 times after every
    50th turn, both readings may be in one such series, which does not say how many turns come between two.
    """
    before, now = _turns_of(earlier.around), _turns_of(later.around)
    if before is None or now is None or before[0] != now[0]:
        return None
    (turns, first), (_, last), taken = before, now, later.taken - earlier.taken
    if taken < _MANY_TURNS or last - first < _TURNS_IN_PART:
        return None
    expected = (last + 1) * taken / (last - first)
    if _are_several(later.around) and abs(later.taken - expected) > _RATE_ERROR * later.taken:
        return None
    found = later.taken + (turns - 1 - last) * taken // (last - first)
    return found if found < ENDLESS_STEPS else None


def _are_several(around: Around) -> bool:
    return sum(isinstance(loop, Loop) and loop.turns > 1 for loop in around) > 1


def _turns_of(around: Around) -> tuple[int, int] | None:
    """Of all loops together, and how many of these are over; None if one of them cannot be read, or has steps
    in another one, too.
    """
    loops = [loop for loop in around if isinstance(loop, Loop)]
    known = len(loops) == len(around) and _are_sure(loops)
    return _together(loops) if known and not any(loop.elsewhere for loop in loops[:-1]) else None


def _together(loops: Sequence[Loop]) -> tuple[int, int]:
    """Turns of all of them, and how many of these are over."""
    done = 0
    for loop in loops:
        done = done * loop.turns + loop.done
    return prod(loop.turns for loop in loops), done


def _counts_steps(loop: Loop | Limited | str, taken: int) -> TypeGuard[Limited]:
    """Whether a loop that is left by a count is left by that of steps: both are the same by now, but for the
    step that is being taken.
    """
    return isinstance(loop, Limited) and taken >= _MANY_TURNS and abs(loop.counted - taken) <= 1


def _steps_of(
    around: Around, taken: int, epoch_steps: int | None, epochs: int, left_early: bool
) -> int | None:
    """By the loops around the first that is over a loader, or that cannot be read. Each turn is a step, or a
    pass over the loader, whose loop may be the one that cannot be read if the steps of the passes that are
    over agree with it. If all can be read, each turn may be several steps.
    """
    read = next((at for at, loop in enumerate(around) if isinstance(loop, str)), len(around))
    loops = [loop for loop in around[:read] if isinstance(loop, Loop)]
    if not loops or list(around).count(LOADER) > 1:
        return None
    turns, done = _together(loops)
    all_read, begun = read == len(around), done + 1
    others = [loop for loop in loops[:-1] if loop.elsewhere]  # each of whose turns may train in two places
    whole = taken % begun == 0 or (begun >= _TURNS_IN_PART and taken > (begun - 1) * -(-taken // begun))
    several = all_read and begun >= _MANY_TURNS and whole and not others
    if not _are_sure(loops):
        return None
    alone = all(loop.done for loop in others)
    if taken and begun >= _LEAST_TURNS and ((taken == begun and alone) or several):
        return turns * -(-taken // begun)
    innermost = read == len(around) - 1  # and not one around epochs
    known = left_early and innermost and epochs >= _LEAST_LEFT
    if all_read or (around[read] == CUT and not known) or not epoch_steps or done != epochs:
        return None
    if not done and (around[read] == OTHER or any(loop.elsewhere for loop in loops)):
        return None
    return turns * epoch_steps if _agree(taken, done, epoch_steps) else None


def _are_sure(loops: Sequence[Loop]) -> bool:
    return all(map(_is_sure, accumulate([[loop] for loop in loops])))


def _is_sure(loops: Sequence[Loop]) -> bool:
    """Whether the innermost will go round as often in all turns of the others, or once did in one of them."""
    *outer, last = loops
    return last.sure or all(loop.turns == 1 or loop.done for loop in outer)


def _agree(taken: int, done: int, epoch_steps: int) -> bool:
    """Whether so many steps can be in the pass after those that are done, give or take one in each."""
    return done * (epoch_steps - 1) <= taken <= (done + 1) * (epoch_steps + 1)


def loops_around(
    frame: FrameType | None, passed: Callable[[FrameType], bool], loader: type, runner: str = ""
) -> Around:
    """Those of ``frame`` and of its callers but for those that are ``passed``: torch's, for example.
    ``loader``: the class of loaders. ``runner``: the file whose code runs the script, and is called by no
    part of it.
    """
    found: list[Loop | Limited | str] = []
    trainers: set[int] = set()  # that have told their own count
    while frame is not None and frame.f_code.co_filename != runner:
        if not passed(frame):
            found[:0] = _loops_in(frame, loader, trainers, found)
        frame = frame.f_back
    for place, loop in enumerate(found):
        if _goes_on(loop) and any(not isinstance(one, Loop) or one.turns > 1 for one in found[:place]):
            found[place] = OTHER
    return [CUT if _is_cut(loop, found[:place]) else loop for place, loop in enumerate(found)]


def _goes_on(loop: Loop | Limited | str) -> bool:
    """Whether its count goes on when it begins again: how often it goes round then is not known."""
    return isinstance(loop, Loop) and not loop.anew


def _is_cut(loop: Loop | Limited | str, around: Around) -> bool:
    """An inner loop that is left early goes round as often as it happens to. That the outermost of several
    turns goes on is assumed.
    """
    if isinstance(loop, Limited):
        return any(not isinstance(one, Loop) or one.turns > 1 for one in around[: -loop.within or None])
    within = any(not isinstance(one, Loop) or one.turns > 1 for one in around)
    return within and isinstance(loop, Loop) and loop.early


def _loops_in(
    frame: FrameType, loader: type, trainers: set[int], inner: list[Loop | Limited | str]
) -> list[Loop | Limited | str]:
    """Those of ``frame``. The ``inner`` ones go where a library counts all that it runs, unless the script
    has some within its step.
    """
    if frame.f_code.co_name == "<lambda>":
        return []
    body = body_of(frame)
    if body is None:
        return [OTHER]
    nodes = list(around_line(body, frame.f_lineno))
    if not nodes:
        return []
    if keeps_its_variables(frame, body):
        return [OTHER]
    with names_of(frame) as names:
        trainer = names.get("self")
        if (counted := own_count(trainer)) is not None:
            known = id(trainer) in trainers
            trainers.add(id(trainer))
            if not known and OTHER not in counted and all(loop == OTHER for loop in inner):
                inner.clear()  # those of the library, which cannot be read
            return [] if known else list(counted)
        function = Function(body, frame.f_lineno, names, unsteady_names(frame, body))
        return _read(nodes, function, loader)


def _read(nodes: list[ast.AST], function: Function, loader: type) -> list[Loop | Limited | str]:
    """Loops of one function. Those that share one count are one."""
    found: list[Loop | Limited | str] = []
    for place, node in enumerate(nodes):
        with suppress(Unread):
            return [*found, counted_loop(nodes[place:], nodes[:place], function)]
        try:
            found.append(counted_loop([node], nodes[:place], function))
        except Unread:
            found.append(_loop(node, nodes[:place], function, loader))
    return found


def _loop(node: ast.AST, around: Sequence[ast.AST], function: Function, loader: type) -> Loop | Limited | str:
    if not isinstance(node, ast.For) or may_change(node, counts=False) or is_always_left(node):
        return OTHER
    names = function.names
    early = ends_early(node, around, function)
    try:
        over, start = iterated(node.iter, names)
        while (name := _wrapped_in(over)) is not None:
            over = attribute(over, name)
        if issubclass(type(over), loader):
            return _left(node, around, function) if early else LOADER
        if type(over) is not range or may_change(node, counts=True):
            return OTHER
        counted = start is not None and isinstance(node.target, ast.Tuple)
        at = value(node.target.elts[0] if counted else node.target, names)  # type: ignore[attr-defined]
        if not is_whole(at):
            return OTHER
        done = at - start if start is not None else over.index(at) if at in over else -1
    except Unread:
        return OTHER
    elsewhere = trains_elsewhere(node, function.line)
    if not 0 <= done < len(over):
        return OTHER
    return Loop(len(over), done, early, elsewhere, sure=not named(node.iter) & function.unsteady)


def _wrapped_in(over: object) -> str | None:
    """The attribute in which it keeps what it goes over, if it belongs to a library that wraps that."""
    module = module_of(type(over))
    return "iterable" if "tqdm" in module else _WRAPPED.get(module.partition(".")[0])


def _left(node: ast.For, around: Sequence[ast.AST], function: Function) -> Limited | str:
    """A pass that may be left early."""
    try:
        return limited_pass(node, around, function) or LOADER
    except Unread:
        return CUT
