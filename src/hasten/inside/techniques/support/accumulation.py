"""Gradients accumulated over several steps of an optimizer, some of which may fail."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import wraps
from types import FrameType, MethodType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor
    from torch.optim import Optimizer


@dataclass
class GradientSum:
    """The gradients of one optimizer, accumulated over ``factor`` calls of its step."""

    factor: int
    batches: int = 0
    _sums: dict[int, tuple[Tensor, Tensor]] = field(default_factory=dict)  # parameter's id: it and its sum
    _hidden: list[tuple[Tensor, Tensor | None, Tensor | None]] = field(default_factory=list)
    """Each parameter with its own gradient, and its temporary one."""

    def begin(self, optimizer: Optimizer) -> None:
        """Give the step the mean of ``factor`` gradients, or nothing if it must wait."""
        waits = (self.batches + 1) % self.factor != 0
        for parameter in (parameter for group in optimizer.param_groups for parameter in group["params"]):
            gradient, total = parameter.grad, self._sum_of(parameter)
            given = None
            if not waits and total is not None:
                given = total / self.factor if gradient is None else (total + gradient).div_(self.factor)
            elif not waits and gradient is not None:
                given = gradient / self.factor
            self._hidden.append((parameter, gradient, given))
            parameter.grad = given

    def end(self) -> bool:
        """The step has ended: restore the script's own gradients; returns whether it was a waiting step."""
        self.batches += 1
        waits = self.batches % self.factor != 0
        for parameter, gradient, _ in self._hidden if waits else ():
            if gradient is not None:
                total = self._sum_of(parameter)
                kept = gradient.clone() if total is None else total.add_(gradient)
                self._sums[id(parameter)] = (parameter, kept)
        if not waits:
            self._sums.clear()
        self.take_back()
        return waits

    def take_back(self) -> None:
        """Restore the script's own gradients, even after a failed step."""
        for parameter, gradient, given in self._hidden:
            if parameter.grad is given:  # otherwise the script has put its own there since
                parameter.grad = gradient
        self._hidden.clear()

    def _sum_of(self, parameter: Tensor) -> Tensor | None:
        known = self._sums.get(id(parameter))
        if known is None or known[0] is not parameter or known[1].shape != parameter.shape:
            return None  # for example cut smaller meanwhile
        return known[1]


class StepUnderWay:
    """A running step, whose hooks were called from ``frame``. It may end with an exception."""

    def __init__(
        self, optimizer: Optimizer, frame: FrameType, gathered: GradientSum | None, scale: float
    ) -> None:
        self._optimizer, self._frame, self._gathered = optimizer, frame, gathered
        self._rates = [group.get("lr") for group in optimizer.param_groups]
        if gathered is not None:
            gathered.begin(optimizer)
        for group in optimizer.param_groups:
            if group.get("lr") is not None:
                group["lr"] = group["lr"] * scale

    def is_around(self, frame: FrameType | None) -> bool:
        """Whether ``frame`` is called from within the step."""
        while frame is not None and frame is not self._frame:
            frame = frame.f_back
        return frame is not None

    def end(self) -> bool:
        """Whether it was a waiting step."""
        self._give_rates_back()
        return self._gathered is not None and self._gathered.end()

    def take_back(self) -> None:
        """Undo the beginning of the step."""
        self._give_rates_back()
        if self._gathered is not None:
            self._gathered.take_back()

    def _give_rates_back(self) -> None:
        for group, rate in zip(self._optimizer.param_groups, self._rates, strict=False):
            if rate is not None:
                group["lr"] = rate


def told_of_failure(optimizer: Optimizer, failed: Callable[[], None]) -> Callable[[], None]:
    """Call ``failed`` when the optimizer's step raises, before the script can catch it; returns the undo. A
    schedule that wraps the step, before us or later, is left in place.
    """
    held: Any = optimizer  # whose method is replaced
    original, told = held.step, [failed]

    def step(*args: object, **kwargs: object) -> object:
        try:
            return original(*args[bound:], **kwargs)
        except BaseException:
            for tell in told:
                tell()
            raise

    bound = int(hasattr(original, "__func__"))  # a schedule created later looks for a method
    present = vars(optimizer).get("step")
    ours = wraps(original.__func__ if bound else original)(step)
    held.step = put = MethodType(ours, optimizer) if bound else ours

    def undo() -> None:
        told.clear()
        if vars(optimizer).get("step") is put:
            if present is None:
                del held.step
            else:
                held.step = present

    return undo
