"""The closure passed to an optimizer's step: when it is evaluated, and for how long. Its time is not the
update's, even if no seam sees what it computes, such as passes of a frozen network through which a picture is
trained.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial, wraps
from types import FunctionType, MethodType

from ..seams import Args, Call, Kwargs

MANY = 10  # evaluations in one update
_FUNCTIONS = (FunctionType, MethodType, partial)  # not a module, which some optimizers get
_NAME = "closure"


@dataclass(slots=True)
class Evaluations:
    """Of the closures that updates get. ``are_steps``: each of them, since an update took many."""

    are_steps: bool = False
    updates: int = 0  # that have begun
    in_update: int = 0  # evaluations that this update has begun
    updates_ended: int = 0
    in_ended: int = 0  # evaluations in those
    saved: int = 0  # steps, where several evaluations made one

    def update_begins(self) -> None:
        self.updates += 1
        self.in_update = 0

    def begins(self) -> bool:
        """One begins; whether a step ends there."""
        before = self.in_update
        self.in_update += 1
        if before == MANY and not self.are_steps:
            self.are_steps = True
            self.saved = self.in_ended - self.updates_ended + MANY - 1
        return self.are_steps and before > 0

    def update_ends(self) -> None:
        self.updates_ended += 1
        self.in_ended += self.in_update

    def steps_of(self, updates: int) -> int:
        """That so many updates will have taken, in all."""
        return updates * self.in_ended // self.updates_ended - self.saved


def with_timed_closure(
    args: Args, kwargs: Kwargs, begins: Callable[[], None], took: Callable[[float], None]
) -> tuple[Args, Kwargs] | None:
    """The arguments of an optimizer's step, itself first, with a closure that tells that it begins, and then
    its seconds; None if there is no closure.
    """
    if len(args) > 1 and isinstance(args[1], _FUNCTIONS):
        return (args[0], _timed(args[1], begins, took), *args[2:]), kwargs
    named = kwargs.get(_NAME)
    if isinstance(named, _FUNCTIONS):
        return args, {**kwargs, _NAME: _timed(named, begins, took)}
    return None


def _timed(closure: Call, begins: Callable[[], None], took: Callable[[float], None]) -> Call:
    @wraps(closure)
    def timed(*args: object, **kwargs: object) -> object:
        begins()
        began = time.perf_counter()
        try:
            return closure(*args, **kwargs)
        finally:
            took(time.perf_counter() - began)

    return timed
