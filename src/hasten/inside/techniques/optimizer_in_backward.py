"""Each parameter is updated as soon as it has its gradient, which is then freed.

It helps if memory decides what fits: gradients are never held all together. It costs a call of the optimizer
for each parameter. It is wrong, and refused, if gradients are read or changed between backward pass and step:
clipping, accumulation over batches, several backward passes per step, a learning rate set in between. The
first step after switching it on is watched for that, and runs as the script wrote it.

Source: https://docs.pytorch.org/tutorials/intermediate/optimizer_step_in_backward_tutorial.html
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ...records.facts import Facts
from ...records.plan import Settings
from ...records.trial import Proof
from ..training import NotApplicable, Training
from .base import SAVES_MEMORY, Technique, conflicting

if TYPE_CHECKING:
    from torch import Tensor
    from torch.optim import Optimizer


class OptimizerInBackward(Technique):
    name = "optimizer_in_backward"
    summary = "each parameter updated during the backward pass, its gradient freed at once"
    layer = "application"
    risk = "exact"
    scope = "live"
    conflicts = conflicting(zero_grad_to_none="gradients are freed as soon as they are used")
    not_tried = SAVES_MEMORY

    def __init__(self) -> None:
        self._undo: list[Callable[[], None]] = []
        self._watches: list[_Watch] = []

    @classmethod
    def refuse(cls, facts: Facts) -> list[str]:
        seen = facts.observation
        if not seen.optimizers:
            return ["the script has no torch optimizer"]
        reasons = [
            f"the script uses {name}, which needs all gradients before the step"
            for name in ("clipping", "GradScaler")
            if name in seen.uses
        ]
        if any(step.signature[2] != 1 for step in seen.steps):
            reasons.append("a step has not exactly one backward pass")
        if len(seen.optimizers) > 1:
            reasons.append("there are several optimizers, and a backward pass may reach into another's part")
        if any(optimizer.name == "LBFGS" for optimizer in seen.optimizers):
            reasons.append("LBFGS needs all gradients at once")
        return reasons

    def install(self, training: Training, settings: Settings) -> None:
        if len(training.optimizers) > 1:
            raise NotApplicable("there are several optimizers")
        if training.averages_gradients:
            raise NotApplicable("gradients are averaged over ranks after they have come")
        for optimizer in training.optimizers:
            watch = _Watch(optimizer)
            self._watches.append(watch)
            self._undo.append(optimizer.register_step_pre_hook(watch.step_begins).remove)
            self._undo.append(optimizer.register_step_post_hook(watch.step_ends).remove)
            for group in optimizer.param_groups:
                for parameter in group["params"]:
                    hook = parameter.register_post_accumulate_grad_hook(watch.gradient_came)
                    self._undo.append(hook.remove)

    def remove(self, training: Training) -> None:
        while self._undo:
            self._undo.pop()()

    def proof(self, training: Training) -> Proof:
        """Counts the parameters that were updated during backward passes."""
        updates = sum(watch.updates for watch in self._watches)
        reason = next((watch.reason for watch in self._watches if watch.reason), "")
        evidence = f"{updates} parameters updated during backward passes"
        return Proof(self.name, updates > 0 and not reason, f"{evidence}; {reason}" if reason else evidence)

    @classmethod
    def by_hand(cls, settings: Settings) -> str:
        return (
            "optimizers = {p: torch.optim.Adam([p], ...) for p in model.parameters()}\n"
            "def update(p):\n"
            "    optimizers[p].step()\n"
            "    optimizers[p].zero_grad()\n"
            "for p in model.parameters():\n"
            "    p.register_post_accumulate_grad_hook(update)\n"
            "# and no optimizer.step() or zero_grad() in the loop"
        )


class _Watch:
    """One optimizer: watched for a step, then stepped parameter by parameter, unless a reason was seen."""

    def __init__(self, optimizer: Optimizer) -> None:
        self._refer = weakref.ref(optimizer)  # its hooks hold us
        self._came: dict[int, tuple[Tensor, int]] = {}  # in a watched step: each gradient, its version
        self._rates: list[object] = []
        self._armed = False
        self.updates = 0
        self.reason = ""

    def gradient_came(self, parameter: Tensor) -> None:
        if self._armed:
            self._update(parameter)
        elif id(parameter) in self._came:
            self.reason = "gradients are added up over several backward passes"
        else:
            gradient = parameter.grad
            assert gradient is not None  # it has just come
            self._came[id(parameter)] = (gradient, gradient._version)
            self._rates = self._learning_rates()

    def step_begins(self, *_: object) -> None:
        if self._armed or self.reason or not self._came:
            return
        for group in self._groups():
            for parameter in group["params"]:
                gradient, version = self._came.get(id(parameter), (None, 0))
                if parameter.grad is not gradient and parameter.grad is not None:
                    self.reason = "gradients are there that this backward pass did not make"
                elif gradient is not None and gradient._version != version:
                    self.reason = "the script changes gradients before the step"
        if self._rates != self._learning_rates():
            self.reason = "the learning rate is set between backward pass and step"

    def step_ends(self, *_: object) -> None:
        if self._came and not self.reason:
            self._armed = True
        self._came.clear()

    def _learning_rates(self) -> list[object]:
        return [float(group["lr"]) for group in self._groups() if "lr" in group]

    def _groups(self) -> list[dict[str, Any]]:
        optimizer = self._refer()
        return optimizer.param_groups if optimizer is not None else []

    def _update(self, parameter: Tensor) -> None:
        """The optimizer's own update, with this parameter for all it has; its state is where it always is."""
        optimizer = self._refer()
        if optimizer is None:  # the script goes on without it
            return
        groups = optimizer.param_groups
        mine = next(group for group in groups if any(p is parameter for p in group["params"]))
        optimizer.param_groups = [{**mine, "params": [parameter]}]
        try:
            step = type(optimizer).step
            getattr(step, "__wrapped__", step)(optimizer)  # not the wrapper: this is no step of the script's
        finally:
            optimizer.param_groups = groups
        parameter.grad = None
        self.updates += 1
