"""Optimizers' steps: where an update begins and ends, within a backward pass too."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from threading import get_ident
from types import FrameType
from typing import TYPE_CHECKING

from ..process.calls import is_within
from ..seams import Args, Call, Kwargs
from ..training import Training
from .bypassed import Bypassed
from .closures import watched_closure, with_watched_closure
from .direct_calls import DirectCalls
from .observer import Observer, clock

if TYPE_CHECKING:
    from torch.optim import Optimizer


@dataclass(frozen=True, slots=True)
class _Step:
    """Of the ``optimizer`` with this id, whose hooks ``caller`` calls."""

    optimizer: int
    caller: FrameType
    thread: int

    def may_go_on(self, frame: FrameType) -> bool:
        """Whether ``frame``, of this thread, is called from within the step, or the step is another's."""
        return self.thread != get_ident() or is_within(frame, self.caller)


class Updates:
    """``begins`` and ``ends`` are hooks of all optimizers' steps. The step of one may call another's:
    together they are one. They run in every step, and catch their own failures.
    """

    def __init__(
        self,
        training: Training,
        observer: Observer,
        direct: DirectCalls,
        on_update: Callable[[Optimizer], None],
    ) -> None:
        self._training, self._observer, self._direct = training, observer, direct
        self._on_update = on_update
        self._bypassed = Bypassed(training)
        self._at_work: list[_Step] = []
        self._began_within = 0.0  # when one began that steps within a backward pass

    def begins(self, optimizer: Optimizer, args: Args, kwargs: Kwargs) -> tuple[Args, Kwargs] | None:
        given, observer = None, self._observer
        try:
            caller = sys._getframe(1)
            if self._at_work:  # steps within steps; or one raised, so it never ended
                self._at_work = [step for step in self._at_work if step.may_go_on(caller)]
            if not self._at_work and observer.in_backward:
                self._began_within = clock()
            elif not self._at_work:
                given = with_watched_closure(args, kwargs, self._watched)
                observer.update_begins()
            self._at_work.append(_Step(id(optimizer), caller, get_ident()))
        except Exception as error:
            self._training.seams.give_up(error)
        return given

    def ends(self, optimizer: Optimizer, args: object, kwargs: object) -> None:
        training, observer = self._training, self._observer
        try:
            for act in training.after_updates.values():
                act()
            self._end(id(optimizer))
            self._on_update(optimizer)
            if optimizer not in training.stepped:
                training.stepped.put(optimizer, None)
                self._direct.stepped(training.serial_of(training.number_of(optimizer)))
                self._bypassed.stepped(optimizer)
            if not self._at_work and observer.in_backward:
                training.steps_in_backward = True
                observer.updated_within(clock() - self._began_within, training.number_of(optimizer))
            elif not self._at_work:
                observer.update_ends(training.number_of(optimizer))
        except Exception as error:
            training.seams.give_up(error)

    def _watched(self, optimizer: Optimizer, closure: Call) -> Call:
        return watched_closure(
            closure, partial(self._evaluation_begins, optimizer), self._observer.closure_took
        )

    def _evaluation_begins(self, optimizer: Optimizer) -> None:
        """An optimizer may keep its closure, and call it outside of its step."""
        training = self._training
        if training.seams.given_up or not self._at_work or self._at_work[0].optimizer != id(optimizer):
            return
        try:
            self._observer.evaluation_begins(training.number_of(optimizer))
        except Exception as error:
            training.seams.give_up(error)

    def _end(self, optimizer: int) -> None:
        """The latest step of the optimizer with that id is over. It may be one within its own step: a class
        that has a step may call its base's.
        """
        places = [place for place, step in enumerate(self._at_work) if step.optimizer == optimizer]
        if places:
            del self._at_work[places[-1] :]
