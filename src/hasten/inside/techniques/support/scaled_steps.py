"""Steps of the script's optimizers at a different learning rate, or with accumulated gradients."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from ...seams import Call
from ...training import NotApplicable, Training
from .accumulation import GradientSum, StepUnderWay, told_of_failure

if TYPE_CHECKING:
    from torch.optim import Optimizer


class ScaledSteps:
    """``scale``: of the learning rate, within each step. ``gathered``: the calls of an optimizer's step of
    which one changes the model, with the mean of their gradients; None if each does.

    ``taken`` counts the steps that changed the model, ``schedules`` those of learning rate schedules.
    """

    def __init__(self, scale: float = 1.0, gathered: int | None = None) -> None:
        self.scale, self.gathered = scale, gathered
        self.taken = self.schedules = 0
        self._sums: dict[int, GradientSum] = {}  # by optimizer
        self._begun: dict[int, StepUnderWay] = {}  # steps under way, by optimizer
        self._undo: list[Callable[[], None]] = []

    @property
    def batches(self) -> int:
        """Batches whose gradients were accumulated."""
        return sum(each.batches for each in self._sums.values())

    def put_around(self, training: Training) -> None:
        """Raises NotApplicable if an optimizer's gradients cannot be accumulated."""
        torch, optimizers = training.torch, training.optimizers
        if self.gathered is not None and any(isinstance(each, torch.optim.LBFGS) for each in optimizers):
            raise NotApplicable("LBFGS computes its gradients within its step")

        def scheduling(original: Call) -> Call:
            def step(scheduler: object, *args: object, **kwargs: object) -> object:
                self.schedules += 1
                return original(scheduler, *args, **kwargs)

            return step

        # The optimizer's own hooks: torch may be iterating over the global ones when we are switched on.
        hooks = [
            hook
            for each in optimizers
            for hook in (each.register_step_pre_hook(self._begins), each.register_step_post_hook(self._ends))
        ]
        self._undo = [training.seams.on_undo(hook.remove) for hook in hooks]
        for each in optimizers:
            self._undo.append(training.seams.on_undo(told_of_failure(each, self._take_back_what_failed)))
        self._undo.append(training.seams.replace(torch.optim.lr_scheduler.LRScheduler, "step", scheduling))

    def take_back(self) -> None:
        while self._undo:
            self._undo.pop()()
        self._take_back_what_failed()

    def _begins(self, optimizer: Optimizer, args: object, kwargs: object) -> None:
        frame = sys._getframe(1)  # the step's own: its hooks are called from there
        if id(optimizer) in self._begun:
            if self._begun[id(optimizer)].is_around(frame):
                return  # a step within its own step
            self._begun.pop(id(optimizer)).take_back()
        gathered = None
        if self.gathered is not None:
            gathered = self._sums.setdefault(id(optimizer), GradientSum(self.gathered))
        self._begun[id(optimizer)] = StepUnderWay(optimizer, frame, gathered, self.scale)

    def _ends(self, optimizer: Optimizer, args: object, kwargs: object) -> None:
        step = self._begun.pop(id(optimizer), None)
        if step is not None:  # otherwise it belongs to a step whose own step has ended
            self.taken += not step.end()

    def _take_back_what_failed(self) -> None:
        """Undo what was begun for steps that raised."""
        now = sys._getframe(1)
        for key, step in list(self._begun.items()):
            if not step.is_around(now):
                del self._begun[key]
                step.take_back()
