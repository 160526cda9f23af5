"""Optimizers' steps: where an update begins and ends, within a backward pass too."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from ..seams import Args, Kwargs
from ..training import Training
from .bypassed import Bypassed
from .closures import with_timed_closure
from .direct_calls import DirectCalls
from .observer import Observer, clock

if TYPE_CHECKING:
    from torch.optim import Optimizer


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
        self._began_within = 0.0  # when one began that steps within a backward pass

    def begins(self, optimizer: Optimizer, args: Args, kwargs: Kwargs) -> tuple[Args, Kwargs] | None:
        given, observer = None, self._observer
        try:
            self._leave(optimizer)  # its last step raised, so it never ended
            if not self._at_work and observer.in_backward:
                self._began_within = clock()
            elif not self._at_work:
                evaluation_begins = partial(self._evaluation_begins, optimizer)
                given = with_timed_closure(args, kwargs, evaluation_begins, observer.closure_took)
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
            self._leave(optimizer)
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

    def _evaluation_begins(self, optimizer: Optimizer) -> None:
        training = self._training
        if training.seams.given_up:
            return
        try:
            self._observer.evaluation_begins(training.number_of(optimizer))
        except Exception as error:
            training.seams.give_up(error)

    def _leave(self, optimizer: Optimizer) -> None:
        if id(optimizer) in self._at_work:
            del self._at_work[self._at_work.index(id(optimizer)) :]
