"""Optimizers' steps: where an update begins and ends, within a backward pass too."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
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
        self._at_work: list[int] = []  # ids of those in their step
        self._raised: dict[int, Optimizer] = {}  # by id, those whose closure raised: the step may be over
        self._began_within = 0.0  # when one began that steps within a backward pass

    def begins(self, optimizer: Optimizer, args: Args, kwargs: Kwargs) -> tuple[Args, Kwargs] | None:
        given, observer = None, self._observer
        try:
            if id(optimizer) in self._at_work:
                self._raised[id(optimizer)] = optimizer
            for raised in tuple(self._raised.values()):
                self._leave(raised)
            if not self._at_work and observer.in_backward:
                self._began_within = clock()
            elif not self._at_work:
                given = with_watched_closure(args, kwargs, self._watched)
                observer.update_begins()
            self._at_work.append(id(optimizer))
        except Exception as error:
            self._training.seams.give_up(error)
        return given

    def ends(self, optimizer: Optimizer, args: object, kwargs: object) -> None:
        training, observer = self._training, self._observer
        try:
            for act in training.after_updates.values():
                act()
            self._end(optimizer)
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
        begins = partial(self._evaluation_begins, optimizer)
        raised = partial(self._raised.__setitem__, id(optimizer), optimizer)
        return watched_closure(closure, begins, self._observer.closure_took, raised)

    def _evaluation_begins(self, optimizer: Optimizer) -> None:
        """An optimizer may keep its closure, and call it outside of its step."""
        training = self._training
        self._raised.pop(id(optimizer), None)
        if training.seams.given_up or self._at_work[:1] != [id(optimizer)]:
            return
        try:
            self._observer.evaluation_begins(training.number_of(optimizer))
        except Exception as error:
            training.seams.give_up(error)

    def _leave(self, raised: Optimizer) -> None:
        """If something ended its step, that is over, and all that began since."""
        self._raised.pop(id(raised), None)
        if id(raised) in self._at_work and not _is_in_step(raised):
            del self._at_work[self._at_work.index(id(raised)) :]

    def _end(self, optimizer: Optimizer) -> None:
        """Its latest step is over."""
        self._raised.pop(id(optimizer), None)
        if id(optimizer) in self._at_work:
            del self._at_work[len(self._at_work) - 1 - self._at_work[::-1].index(id(optimizer)) :]


def _is_in_step(optimizer: Optimizer) -> bool:
    """Whether a step of the optimizer is running: a class that has a step of its own may call its base's."""
    frame = sys._getframe(1).f_back
    while frame is not None:
        code = frame.f_code
        named = code.co_name == _STEP and code.co_argcount
        if named and frame.f_locals.get(code.co_varnames[0]) is optimizer:
            return True
        frame = frame.f_back
    return False
