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
from types import ModuleType
from typing import TYPE_CHECKING, TypeVar

from ...records.facts import Facts
from ...records.plan import Settings
from ...records.trial import Proof
from ..internals.other_functions import held_gradient, is_view
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
        self._plain: type[Tensor]
        self._references = self._uses = 0  # of a gradient that nothing else holds

    @classmethod
    def refuse(cls, facts: Facts) -> list[str]:
        return [] if USE in facts.observation.uses else [f"the script does not call {USE}"]

    def install(self, training: Training, settings: Settings) -> None:
        torch = training.torch
        replace = training.seams.replace
        self._plain = torch.Tensor
        self._references, self._uses = _held_by_nothing_else(torch)
        self._undo.append(replace(torch.optim.Optimizer, "zero_grad", self._to_none(_of_optimizer)))
        self._undo.append(replace(torch.nn.Module, "zero_grad", self._to_none(_of_module)))
        for optimizer in training.optimizers:
            self._undo.append(optimizer.register_step_pre_hook(self._give_zeros).remove)
        for name in ("backward", "grad"):  # Tensor's calls the first
            self._undo.append(replace(torch.autograd, name, self._then_zeros))

    def _then_zeros(self, original: Call) -> Call:
        """A script may look at all gradients after its backward pass: to clamp them, say. Or it copies what
        ``torch.autograd.grad`` returns into them.
        """

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
                there = [p for p in parameters_of(owner) if p.grad is not None]
                taken = [p for p in there if self._can_go(p)]
                for parameter in taken:
                    parameter.grad = None
                    self._emptied.append(weakref.ref(parameter))
                self._calls += bool(taken)
                if len(taken) < len(there):
                    original(owner, set_to_none)

            return zero_grad

        return make

    def _can_go(self, parameter: Tensor) -> bool:
        """Whether the gradient is the parameter's alone. A script may have a list of all gradients, or one
        buffer of which they are views.
        """
        references, uses = held_gradient(parameter)
        if references > self._references or uses > self._uses:
            return False
        gradient = parameter.grad
        return (
            type(gradient) is self._plain
            and gradient.layout is parameter.layout
            and not is_view(gradient)
            and gradient.untyped_storage().nbytes() == gradient.nbytes
        )

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


def _held_by_nothing_else(torch: ModuleType) -> tuple[int, int]:
    """What ``held_gradient`` finds for such a gradient."""
    parameter = torch.zeros(1, device="cpu", requires_grad=True)
    parameter.grad = torch.zeros(1, device="cpu")
    return held_gradient(parameter)


def _zeros_like(parameter: Tensor) -> Tensor:
    """Zeros with the parameter's strides, like a gradient's."""
    return parameter.detach().clone().zero_()


def _of_optimizer(optimizer: Optimizer) -> Iterable[Tensor]:
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]


def _of_module(module: Module) -> Iterable[Tensor]:
    return module.parameters()
