"""The closure passed to an optimizer's step: when it is evaluated, and for how long. Its time is not the
update's, even if no seam sees what it computes, such as passes of a frozen network through which a picture is
trained.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial, wraps
from types import FunctionType, MethodType
from typing import Any

from ..seams import Args, Call, Kwargs

_MANY, _MANY_ON_A_BATCH = 10, 50  # evaluations in one update
_ALIKE = 1.25  # times the fewest evaluations of an update: the most, where all take about as many
_FUNCTIONS = (FunctionType, MethodType, partial)  # not a module, which some optimizers get
_NAME = "closure"


@dataclass(slots=True)
class Evaluations:
    """Of the closures that updates get. ``are_steps``: whether each is a step; None: that is found out. They
    are from the first update on that evaluates its closure many times. One that waited for a loader's batch
    needs more of them: it comes again with the next batch.
    """

    are_steps: bool | None = False
    updates: int = 0  # that have begun
    _in_update: int = 0  # evaluations that have begun in the latest one
    _updates_ended: int = 0
    _in_ended: int = 0  # evaluations in those
    _fewest: int = sys.maxsize  # of an update that has ended
    _most: int = 0

    def update_begins(self) -> None:
        self.updates += 1
        self._in_update = 0

    def begins(self, waited: bool) -> bool:
        """One begins; whether a step ends there. ``waited``: for a loader's batch, since the last step."""
        before = self._in_update
        self._in_update += 1
        if self.are_steps is None and before == (_MANY_ON_A_BATCH if waited else _MANY):
            self.are_steps = True
        return self.are_steps is True and before > 0

    def update_ends(self) -> None:
        self._updates_ended += 1
        self._in_ended += self._in_update
        self._fewest = min(self._fewest, self._in_update)
        self._most = max(self._most, self._in_update)

    def steps_of(self, updates: int | None) -> int | None:
        """That so many updates will have taken; None if these take now more and now fewer evaluations."""
        if updates is None or not self._in_ended or self._most > _ALIKE * self._fewest:
            return None
        return updates * self._in_ended // self._updates_ended


def with_watched_closure(
    args: Args, kwargs: Kwargs, watched: Callable[[Any, Call], Call]
) -> tuple[Args, Kwargs] | None:
    """The arguments of an optimizer's step, itself first, with ``watched(optimizer, closure)`` instead of its
    closure; None if there is none.
    """
    if len(args) > 1 and isinstance(args[1], _FUNCTIONS):
        return (args[0], watched(args[0], args[1]), *args[2:]), kwargs
    named = kwargs.get(_NAME)
    if isinstance(named, _FUNCTIONS):
        return args, {**kwargs, _NAME: watched(args[0], named)}
    return None


def watched_closure(closure: Call, begins: Callable[[], None], took: Callable[[float], None]) -> Call:
    """One that tells when it begins, and its seconds."""

    @wraps(closure)
    def watched(*args: object, **kwargs: object) -> object:
        begins()
        began = time.perf_counter()
        try:
            return closure(*args, **kwargs)
        finally:
            took(time.perf_counter() - began)

    return watched
