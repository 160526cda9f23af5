"""Noise the size of a precision's rounding, added to a baseline: the source of the guard's tolerances."""

from __future__ import annotations

import math
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from ..internals.modules import calls_compiled, has_parts, own_parameters
from ..internals.other_functions import is_transformed
from ..random_state import another_seed, seed_generators
from ..seams import Args, Call, Kwargs
from ..structures import map_tensors
from ..training import Training
from .noisy_weights import NoisyWeights

if TYPE_CHECKING:
    from torch import Generator, Tensor
    from torch.nn import Module
    from torch.optim import Optimizer


_DRAWN_BEFORE = 1_000_003  # numbers; prime, so that tensors of usual sizes get others each time


class Perturber:
    """Multiplies by 1 + ``relative`` times a standard normal number what a lower precision would round.

    That is each entry of: the weights that layers multiply with, during a root's forward pass in a step
    (``NoisyWeights``); the outputs of every layer, and the gradients with respect to them; and the gradients
    that an optimizer's step reads. Layers are modules without children or with their own parameters. A
    root in which torch.compile has compiled anything is one layer, whose weights stay as they are.

    The noise has its own generator, so the script's RNG state does not move. It saves nothing for the
    backward pass: checkpointing, which computes a layer again, would not find it. Under vmap, where drawing
    may be refused, it is taken from numbers drawn before, the same for all samples, and weights have none.
    So it is for large parameters and their gradients on a CPU, where drawing takes longer than training.
    """

    def __init__(self, training: Training, relative: float, redraw: bool, seed: int, after: int = 0) -> None:
        """``after``: steps that are left unchanged."""
        self._training = training
        self._after = after
        self._relative = relative
        self._redraws = redraw
        self._redraw = redraw
        self._drawn_anew = 0  # how often
        self._seed = seed
        self._generators: dict[str, Generator] = {}
        own = training.torch.Generator().manual_seed(seed)
        self._drawn_before, self._taken = training.torch.randn(_DRAWN_BEFORE, generator=own), 0
        training.forward_wrappers["perturber"] = self._forward
        from torch.optim.optimizer import register_optimizer_step_pre_hook

        training.seams.on_undo(register_optimizer_step_pre_hook(self._before_step).remove)
        training.before_updates["perturber"] = self._before_step

    def _forward(self, root: Module, call: Call, args: Args, kwargs: Kwargs) -> object:
        torch = self._training.torch
        if not self._has_begun:
            return call(*args, **kwargs)
        if self._redraw:
            self._draw()
        if not (torch.is_grad_enabled() or self._training.teaches(root)):
            return call(*args, **kwargs)
        if any(map(calls_compiled, root.modules())):  # a hook on all would be compiled, with a warning
            return map_tensors(torch, call(*args, **kwargs), self._rounded)
        from torch.nn.modules.module import register_module_forward_hook

        with ExitStack() as stack:
            stack.callback(register_module_forward_hook(self._layer).remove)
            if not is_transformed(torch):  # then they are of the transform's own kind
                stack.callback(NoisyWeights(torch, root, self._noise_of_weight).put_back)
            output = call(*args, **kwargs)
        return map_tensors(torch, output, self._rounded)

    def draw_anew(self) -> None:
        """Call it when the RNG state was restored to the baseline's."""
        if self._redraws:
            self._draw()

    def samples_come(self) -> None:
        """A batch was ordered, and none of its samples is made yet. So augmentation differs from
        the baseline from the first batch on, while the initial weights are the same.
        """
        if self._redraw and self._training.has_optimizers and self._has_begun:
            self._draw()

    @property
    def _has_begun(self) -> bool:
        return self._training.steps >= self._after

    def _draw(self) -> None:
        torch = self._training.torch
        self._redraw = False
        self._drawn_anew += 1
        seed_generators(torch, another_seed(torch.initial_seed(), self._drawn_anew, self._seed))

    def _layer(self, module: Module, inputs: object, output: object) -> Any:
        return map_tensors(self._training.torch, output, self._rounded) if _is_layer(module) else None

    def _rounded(self, value: Tensor) -> Tensor:
        """``value`` with noise, whose gradient gets separate noise."""
        noise = self._noise(value)
        if noise is None or not value.numel():
            return value
        rounded = value + self._kept_within(value.detach(), noise)
        untyped: Any = rounded  # as torch leaves register_hook
        if rounded.requires_grad:
            untyped.register_hook(self._noisy)
        return rounded

    def _kept_within(self, value: Tensor, noise: Tensor) -> Tensor:
        """``noise``, limited so that values in [-1, 1] stay there if all of them are: rounding does the same,
        and losses refuse a probability above 1.
        """
        bound = self._training.torch.where(value.abs().max() <= 1, 1.0, math.inf).to(value.dtype)
        return (value + noise).clamp(-bound, bound) - value

    def _before_step(self, optimizer: Optimizer, *_: object) -> None:
        for group in optimizer.param_groups if self._has_begun else ():
            for parameter in group["params"]:
                if parameter.grad is not None and (noise := self._noise_of_sums(parameter.grad)) is not None:
                    parameter.grad.data.add_(noise)

    def _noisy(self, value: Tensor) -> Tensor:
        noise = self._noise(value)
        return value if noise is None else value + noise

    def _noise(self, value: Tensor, drawn_before: bool = False) -> Tensor | None:
        """What to add; None for tensors that are not floating point, or not strided."""
        drawn = self._drawn_for(value, drawn_before)
        return None if drawn is None else self._scaled(drawn, value.detach())

    def _noise_of_weight(self, weight: Tensor) -> Tensor | None:
        return self._noise(weight, drawn_before=_is_large(weight))

    def _noise_of_sums(self, gradient: Tensor) -> Tensor | None:
        """Like ``_noise``, but at least as large as for the tensor's typical entry: if the terms of a sum
        cancel, its rounding error stays as large as theirs.
        """
        drawn = self._drawn_for(gradient, _is_large(gradient))
        if drawn is None:
            return None
        usual = gradient.detach().square().mean().sqrt()
        return self._scaled(drawn, gradient.detach().abs().clamp_(min=usual))

    def _scaled(self, drawn: Tensor, by: Tensor) -> Tensor:
        if is_transformed(self._training.torch):
            return drawn * by * self._relative
        return drawn.mul_(by).mul_(self._relative)

    def _drawn_for(self, value: Tensor, drawn_before: bool) -> Tensor | None:
        torch = self._training.torch
        if not value.is_floating_point() or value.layout != torch.strided or value.is_nested:
            return None
        if drawn_before or is_transformed(torch):
            return self._taken_for(value)
        device = str(value.device)
        if device not in self._generators:
            self._generators[device] = torch.Generator(device).manual_seed(self._seed)
        drawn: Tensor = torch.randn(
            value.shape, generator=self._generators[device], device=value.device, dtype=value.dtype
        )
        return drawn

    def _taken_for(self, value: Tensor) -> Tensor:
        count = value.numel()
        whole = self._drawn_before.roll(-self._taken).repeat(-(-count // _DRAWN_BEFORE))[:count]
        self._taken = (self._taken + count) % _DRAWN_BEFORE
        found: Tensor = whole.reshape(value.shape).to(value.device, value.dtype)
        return found


def _is_large(parameter: Tensor) -> bool:
    return parameter.device.type == "cpu" and parameter.numel() > _DRAWN_BEFORE


def _is_layer(module: Module) -> bool:
    return not has_parts(module) or any(value is not None for value in own_parameters(module).values())
