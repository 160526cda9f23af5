"""Loss scaling for float16: every backward pass runs on a scaled loss and leaves plain gradients.

Gradients are unscaled at the end of the backward pass that made them, not at the optimizer's step: so what a
script does with them in between (clipping, accumulating over batches, printing norms, several optimizers) is
right without a change. An optimizer whose gradients overflowed takes no step: its gradients are dropped
before, so that its ``step`` is called, as a scheduler expects, and changes nothing.

Source: https://docs.pytorch.org/docs/stable/amp.html (gradient scaling) and Micikevicius et al., Mixed
Precision Training, 2018.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeAlias

from ...internals.other_functions import multiply_each, stored_values, unscale_each
from ...seams import Call
from ...training import Training

if TYPE_CHECKING:
    from torch import Tensor
    from torch.optim import Optimizer

FIRST = 2.0**12  # lower than torch's 2**16, so that the first steps are not lost to overflow
Tensors: TypeAlias = "Tensor | Sequence[Tensor]"
GROWTH, BACKOFF = 2.0, 0.5  # powers of two: scaling and unscaling are exact
GROWTH_INTERVAL = 2000  # steps without overflow
LEAST = 1.0


@dataclass
class Scale:
    """The factor on the loss, and the number of steps since the last overflow."""

    value: float = FIRST
    good_steps: int = 0

    def step_taken(self, overflowed: bool) -> None:
        """Lower the scale after an overflow; raise it after enough steps without one."""
        if overflowed:
            self.value, self.good_steps = max(LEAST, self.value * BACKOFF), 0
            return
        self.good_steps += 1
        if self.good_steps == GROWTH_INTERVAL:
            self.value, self.good_steps = self.value * GROWTH, 0


@dataclass
class LossScaling:
    """Wraps ``torch.autograd.backward``, which ``Tensor.backward`` calls, and runs before steps."""

    training: Training
    scale: Scale
    backwards: int = 0
    skipped: int = 0  # steps
    left_alone: str = ""  # why backward passes are no longer scaled
    _undo: list[Callable[[], None]] = field(default_factory=list)
    _overflowed: dict[int, list[Tensor]] = field(default_factory=dict)  # id of an optimizer -> found_inf
    _stepping: set[int] = field(default_factory=set)

    def install(self) -> None:
        torch = self.training.torch
        self._undo.append(self.training.seams.replace(torch.autograd, "backward", self._around))
        for optimizer in self.training.optimizers:
            before = optimizer.register_step_pre_hook(self._step_begins)
            after = optimizer.register_step_post_hook(self._step_ends)
            self._undo += [before.remove, after.remove]

    def remove(self) -> None:
        while self._undo:
            self._undo.pop()()

    # ---- backward
    def _around(self, original: Call) -> Call:
        def backward(
            tensors: Tensors, grad_tensors: Tensors | None = None, retain_graph: bool | None = None,
            create_graph: bool = False,
            *others: object, **more: object,
        ) -> object:  # fmt: skip
            losses = _several(self.training.torch, tensors)
            if create_graph or not self._can_scale(losses):
                return original(tensors, grad_tensors, retain_graph, create_graph, *others, **more)
            scaled = self._scaled(losses, grad_tensors)
            groups = list(self._gradients())
            self._multiply(groups)
            try:
                return original(losses, scaled, retain_graph, create_graph, *others, **more)
            finally:
                self._unscale()
                self.backwards += 1

        return backward

    def _scaled(self, losses: tuple[Tensor, ...], gradients: Tensors | None) -> list[Tensor | None]:
        """The gradient passed to each loss: the script's own, or one, times the scale."""
        torch = self.training.torch
        given: tuple[Tensor | None, ...] = () if gradients is None else _several(torch, gradients)
        given = given if len(given) == len(losses) else (None,) * len(losses)
        scale = self.scale.value
        return [
            torch.full_like(loss, scale) if own is None and loss.numel() == 1
            else None if own is None else own * scale
            for loss, own in zip(losses, given, strict=True)
        ]  # fmt: skip

    def _can_scale(self, losses: tuple[Tensor, ...]) -> bool:
        """Leaves that are not parameters would keep scaled gradients; the first graph shows whether there are
        any.
        """
        if not self.left_alone and not self.backwards:
            known = {id(p) for p in self._parameters()}
            if any(id(leaf) not in known for leaf in leaves_of(losses)):
                self.left_alone = "the script takes gradients of tensors other than parameters"
        return not self.left_alone

    def _parameters(self) -> Iterator[Tensor]:
        for root in self.training.roots:
            yield from root.parameters()
        for optimizer in self.training.optimizers:
            for group in optimizer.param_groups:
                yield from group["params"]

    def _gradients(self) -> Iterator[tuple[list[int], list[Tensor]]]:
        """Existing dense gradients, grouped by owners (ids of optimizers), device and type."""
        owners: dict[int, list[int]] = {}
        for optimizer in self.training.optimizers:
            for group in optimizer.param_groups:
                for parameter in group["params"]:
                    owners.setdefault(id(parameter), []).append(id(optimizer))
        groups: dict[object, tuple[list[int], list[Tensor]]] = {}
        seen: set[int] = set()
        for parameter in self._parameters():
            gradient = parameter.grad
            if gradient is None or id(parameter) in seen:
                continue
            seen.add(id(parameter))
            values = stored_values(gradient) if gradient.is_sparse else gradient
            mine = owners.get(id(parameter), [])
            key = (tuple(mine), values.device, values.dtype)
            groups.setdefault(key, (mine, []))[1].append(values)
        yield from groups.values()

    def _multiply(self, groups: list[tuple[list[int], list[Tensor]]]) -> None:
        """Scale the plain gradients of earlier passes, because scaled ones are added to them."""
        torch = self.training.torch
        with torch.no_grad():
            for _, gradients in groups:
                multiply_each(torch, gradients, self.scale.value)

    def _unscale(self) -> None:
        torch = self.training.torch
        with torch.no_grad():
            for optimizers, gradients in self._gradients():
                device = gradients[0].device
                found = torch.zeros((), dtype=torch.float32, device=device)
                inverse = torch.full((), 1.0 / self.scale.value, dtype=torch.float32, device=device)
                unscale_each(torch, gradients, found, inverse)
                for number in optimizers:
                    self._overflowed.setdefault(number, []).append(found)
        for number in self._stepping:  # a closure's backward pass: the step is running
            optimizer = next((o for o in self.training.optimizers if id(o) == number), None)
            if optimizer is not None:
                self._judge(optimizer)

    # ---- the optimizer's step
    def _step_begins(self, optimizer: Optimizer, args: object, kwargs: object) -> None:
        self._stepping.add(id(optimizer))
        self._judge(optimizer)

    def _step_ends(self, optimizer: Optimizer, args: object, kwargs: object) -> None:
        self._stepping.discard(id(optimizer))

    def _judge(self, optimizer: Optimizer) -> None:
        """Drop the optimizer's gradients if one of them overflowed since its last step."""
        found = self._overflowed.pop(id(optimizer), [])
        if not found:
            return
        overflowed = any(bool(flag.item()) for flag in found)
        self.scale.step_taken(overflowed)
        if overflowed:
            self.skipped += 1
            for group in optimizer.param_groups:
                for parameter in group["params"]:
                    parameter.grad = None


def _several(torch: ModuleType, given: Any) -> tuple[Tensor, ...]:
    return (given,) if torch.is_tensor(given) else tuple(given)


def leaves_of(losses: tuple[Tensor, ...]) -> list[Tensor]:
    """The tensors in which the gradients of ``losses`` end up."""
    found: list[Tensor] = []
    waiting = [loss.grad_fn for loss in losses if loss.grad_fn is not None]
    seen = set(waiting)
    while waiting:
        node = waiting.pop()
        if hasattr(node, "variable"):
            found.append(node.variable)
        for following, _ in node.next_functions:
            if following is not None and following not in seen:
                seen.add(following)
                waiting.append(following)
    return found
