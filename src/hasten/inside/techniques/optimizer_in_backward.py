"""Each parameter is updated as soon as it has its gradient, which is then freed.

It helps if memory decides what fits: gradients are never held all together. It costs a call of the optimizer
for each parameter. It is wrong, and refused, if gradients are read or changed between backward pass and step:
clipping, accumulation over batches, several backward passes a step, a learning rate set in between. hasten
looks for that in the script's own files. It also watches the first step after it is switched on, which is
taken as the script wrote it. If the script asks later for gradients that are gone by then, it is stopped by
an error that says so: going on would train a different model.

Source: https://docs.pytorch.org/tutorials/intermediate/optimizer_step_in_backward_tutorial.html
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ...records.facts import Facts
from ...records.observation import STEPS_IN_BACKWARD
from ...records.plan import Settings
from ...records.trial import Proof
from ..training import NotApplicable, Training
from .base import SAVES_MEMORY, Technique, conflicting
from .support.gradient_reads import GradientReads, Place, reads_in_source

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
        if STEPS_IN_BACKWARD in seen.uses:
            return ["the script's optimizers step within the backward pass already"]
        reasons = [
            f"the script uses {name}, which needs all gradients before the step"
            for name in ("clipping", "GradScaler")
            if name in seen.uses
        ]
        if seen.steps_are_evaluations:
            reasons.append("an update evaluates its closure many times")
        if any(step.signature[2] != 1 for step in seen.steps):
            reasons.append("a step has not exactly one backward pass")
        if len(seen.optimizers) > 1:
            reasons.append("there are several optimizers, and a backward pass may reach into another's part")
        whole = {optimizer.why_not_merged for optimizer in seen.optimizers} - {""}
        return [*reasons, *(f"{why}, and would be given one parameter at a time" for why in sorted(whole))]

    def install(self, training: Training, settings: Settings) -> None:
        if len(training.optimizers) > 1:
            raise NotApplicable("there are several optimizers")
        if training.averages_gradients:
            raise NotApplicable("gradients are averaged over ranks after they have arrived")
        if place := reads_in_source(training.own_files()):
            raise NotApplicable(f"the script reads gradients itself, at {place}")
        for optimizer in training.optimizers:
            watch = _Watch(optimizer, training)
            self._watches.append(watch)
            self._undo.append(GradientReads(training, watch.was_read, watch.was_reset).undo)
            self._undo.append(optimizer.register_step_pre_hook(watch.step_begins).remove)
            self._undo.append(optimizer.register_step_post_hook(watch.step_ends).remove)
            for group in optimizer.param_groups:
                for parameter in group["params"]:
                    if not parameter.requires_grad:  # should it be thawed, the script's own step updates it
                        continue
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


class GradientsGone(RuntimeError):
    """The script needs gradients that were used and freed. Going on would train a different model."""

    def __init__(self, what: str) -> None:
        super().__init__(
            f"{what}; optimizer_in_backward had used and freed them by then, and could not foresee it. "
            "Train without it: hasten run --without optimizer_in_backward"
        )


class _Watch:
    """One optimizer: watched for a step, then stepped parameter by parameter, unless a reason was seen."""

    def __init__(self, optimizer: Optimizer, training: Training) -> None:
        self._refer = weakref.ref(optimizer)  # its hooks hold us
        self._before_updates = training.before_updates
        self._came: dict[
            int, tuple[Tensor | None, int]
        ] = {}  # since the last step: each gradient, its version
        self._there: set[int] = set()  # parameters that would have a gradient, had it not been freed
        self._settings: list[object] = []  # when the first gradient came
        self._stepping = False
        self._seen = False  # a whole step
        self._armed = False
        self.updates = 0
        self.reason = ""

    def gradient_came(self, parameter: Tensor) -> None:
        key, first = id(parameter), not self._came
        if key in self._came or key in self._there:
            self._object("gradients are added up over several backward passes")
        if first:
            self._settings = self._settings_now()
            self._armed = self._seen and not self.reason
        gradient = parameter.grad
        assert gradient is not None  # it has just come
        self._there.add(key)
        self._came[key] = (gradient, gradient._version)
        if self._armed:
            self._came[key] = (None, 0)  # the gradient goes
            self._update(parameter)

    def was_read(self, parameter: Tensor, place: Place) -> None:
        """Its gradient was read, by something other than torch's optimizers."""
        if id(parameter) in self._there and not self._stepping:
            self._object(f"the script reads gradients after a backward pass, at {place()}")

    def was_reset(self, parameter: Tensor) -> None:
        """Its gradient was taken away, or made zero."""
        if self._stepping:
            return
        if id(parameter) in self._came:
            self._object("the script takes gradients away that no step has used")
        self._there.discard(id(parameter))

    def step_begins(self, *_: object) -> None:
        self._stepping = True
        if self._came and self._settings != self._settings_now():
            self._object("the learning rate, or another setting, is changed between backward pass and step")
        if self._armed or self.reason or not self._came:
            return
        for group in self._groups():
            for parameter in group["params"]:
                gradient, version = self._came.get(id(parameter), (None, 0))
                if parameter.grad is not gradient and parameter.grad is not None:
                    self.reason = "there are gradients that this backward pass did not compute"
                elif gradient is not None and gradient._version != version:
                    self.reason = "the script changes gradients before the step"

    def step_ends(self, *_: object) -> None:
        self._stepping = False
        self._seen = self._seen or bool(self._came)
        self._came.clear()

    def _object(self, reason: str) -> None:
        self.reason = self.reason or reason
        if self._armed:
            raise GradientsGone(reason)

    def _settings_now(self) -> list[object]:
        found: list[object] = []
        for group in self._groups():
            found += [float(v) if hasattr(v, "item") else v for k, v in group.items() if k != "params"]
        return found

    def _groups(self) -> list[dict[str, Any]]:
        optimizer = self._refer()
        return optimizer.param_groups if optimizer is not None else []

    def _update(self, parameter: Tensor) -> None:
        """The optimizer's own update of this parameter alone; its state stays where it always is."""
        optimizer = self._refer()
        if optimizer is None:  # the script goes on without it
            return
        groups, self._stepping = optimizer.param_groups, True
        mine = next(group for group in groups if any(p is parameter for p in group["params"]))
        optimizer.param_groups = [{**mine, "params": [parameter]}]
        try:
            for look in self._before_updates.values():
                look(optimizer)
            step = type(optimizer).step
            getattr(step, "__wrapped__", step)(optimizer)  # not the wrapper: it is not the script's step
            parameter.grad = None
        finally:
            optimizer.param_groups, self._stepping = groups, False
        self.updates += 1
