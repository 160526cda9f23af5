"""Optimizers' steps: where an update begins and ends, within a backward pass too."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from threading import get_ident
from typing import TYPE_CHECKING

from ..seams import Args, Call, Kwargs
from ..training import Training
from .bypassed import Bypassed
from .closures import watched_closure, with_watched_closure
from .direct_calls import DirectCalls
from .observer import Observer, clock

if TYPE_CHECKING:
    from torch.optim import Optimizer

_STEP = "step"  # of torch's optimizers, and of those made like them


@dataclass(frozen=True, slots=True)
class _Step:
    """Of one optimizer, in one thread. It holds neither the optimizer nor a frame: the step may raise."""

    optimizer: int  # its id
    thread: int

    def is_running(self) -> bool:
        """Whether a function of the optimizer's that is called ``step`` is on the thread's stack."""
        frame = sys._current_frames().get(self.thread)
        while frame is not None:
            code = frame.f_code
            named = code.co_name == _STEP and code.co_argcount
            if named and id(frame.f_locals.get(code.co_varnames[0])) == self.optimizer:
                return True
            frame = frame.f_back
        return False


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
            if self._at_work:  # steps within steps; or one raised, so it never ended
                self._at_work = [step for step in self._at_work if step.is_running()]
            if not self._at_work and observer.in_backward:
                self._began_within = clock()
            elif not self._at_work:
                given = with_watched_closure(args, kwargs, self._watched)
                observer.update_begins()
            self._at_work.append(_Step(id(optimizer), get_ident()))
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
                self._steps_first(optimizer)
            if not self._at_work and observer.in_backward:
                training.steps_in_backward = True
                observer.updated_within(clock() - self._began_within, training.number_of(optimizer))
            elif not self._at_work:
                observer.update_ends(training.number_of(optimizer))
        except Exception as error:
            training.seams.give_up(error)

    def _steps_first(self, optimizer: Optimizer) -> None:
        """It has changed weights for the first time."""
        training = self._training
        training.stepped.put(optimizer, None)
        self._direct.stepped(training.serial_of(training.number_of(optimizer)))
        self._bypassed.stepped(optimizer)

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
            ended = self._observer.evaluation_begins(training.number_of(optimizer))
            if ended and optimizer not in training.stepped:
                self._steps_first(optimizer)
        except Exception as error:
            training.seams.give_up(error)

    def _end(self, optimizer: int) -> None:
        """The latest step of the optimizer with that id is over. It may be one within its own step: a class
        that has a step may call its base's.
        """
        places = [place for place, step in enumerate(self._at_work) if step.optimizer == optimizer]
        if places:
            del self._at_work[places[-1] :]
