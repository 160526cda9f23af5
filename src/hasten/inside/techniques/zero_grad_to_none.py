"""Gradients set to None instead of being filled with zeros between two steps.

It helps a script that calls ``zero_grad(set_to_none=False)``: a pass over all gradients is saved, and the
first backward pass writes instead of adding. It does nothing for a script that uses torch's default. A
parameter that takes no part in a step gets its zeros once the backward pass has ended: momentum and weight
decay go on moving it as before, and a script that clamps all gradients finds them.

Source: https://docs.pytorch.org/docs/stable/generated/torch.optim.Optimizer.zero_grad.html
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, TypeVar

from ...records.facts import Facts
from ...records.plan import Settings
from ...records.trial import Proof
from ..seams import Call
from ..training import Training
from .base import Technique

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module
    from torch.optim import Optimizer

Owner = TypeVar("Owner")
USE = "zero_grad(set_to_none=False)"


class ZeroGradToNone(Technique):
    name = "zero_grad_to_none"
    summary = "gradients set to None instead of zero"
    layer = "application"
    risk = "exact"
    scope = "live"
    restarts = True

    def __init__(self) -> None:
        self._undo: list[Callable[[], None]] = []
        self._emptied: list[weakref.ref[Tensor]] = []  # parameters whose gradient was taken away
        self._calls = 0

    @classmethod
    def refuse(cls, facts: Facts) -> list[str]:
        return [] if USE in facts.observation.uses else [f"the script does not call {USE}"]

    def install(self, training: Training, settings: Settings) -> None:
        torch = training.torch
        replace = training.seams.replace
        self._undo.append(replace(torch.optim.Optimizer, "zero_grad", self._to_none(_of_optimizer)))
        self._undo.append(replace(torch.nn.Module, "zero_grad", self._to_none(_of_module)))
        for optimizer in training.optimizers:
            self._undo.append(optimizer.register_step_pre_hook(self._give_zeros).remove)
        self._undo.append(replace(torch.autograd, "backward", self._then_zeros))  # Tensor's calls it

    def _then_zeros(self, original: Call) -> Call:
        """A script may look at all gradients after its backward pass: to clamp them, say."""

        def backward(*args: object, **kwargs: object) -> object:
            result = original(*args, **kwargs)
            self._give_zeros()
            return result

        return backward

    def _to_none(self, parameters_of: Callable[[Owner], Iterable[Tensor]]) -> Callable[[Call], Call]:
        def make(original: Call) -> Call:
            def zero_grad(owner: Owner, set_to_none: bool = True) -> None:
                if set_to_none:
                    original(owner, set_to_none)
                    return
                self._calls += 1
                for parameter in parameters_of(owner):
                    if parameter.grad is not None and parameter.grad.layout == parameter.layout:
                        parameter.grad = None
                        self._emptied.append(weakref.ref(parameter))

            return zero_grad

        return make

    def _give_zeros(self, *_: object) -> None:
        """What had a gradient, and got none in this step, had zeros without us."""
        for ref in self._emptied:
            parameter = ref()
            if parameter is not None and parameter.grad is None:
                parameter.grad = _zeros_like(parameter)
        self._emptied.clear()

    def remove(self, training: Training) -> None:
        while self._undo:
            self._undo.pop()()
        self._give_zeros()

    def proof(self, training: Training) -> Proof:
        """Counts the calls that set gradients to None if the script asks for zeros."""
        return Proof(self.name, self._calls > 0, f"{self._calls} calls of {USE} set to None")

    @classmethod
    def by_hand(cls, settings: Settings) -> str:
        return "optimizer.zero_grad()    # without set_to_none=False"


def _zeros_like(parameter: Tensor) -> Tensor:
    """Zeros with the parameter's strides, like a gradient's."""
    return parameter.detach().clone().zero_()


def _of_optimizer(optimizer: Optimizer) -> Iterable[Tensor]:
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]


def _of_module(module: Module) -> Iterable[Tensor]:
    return module.parameters()
