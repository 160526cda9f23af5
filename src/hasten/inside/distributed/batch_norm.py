"""Batch norm over the global batch: forward and backward exactly as in one process, for uneven slices too.

Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.SyncBatchNorm.html, which weighs the losses of
all ranks alike; here each rank's counts by its part of the batch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from ..internals.modules import batch_norm_kind
from ..seams import Call
from .communication import Communication


def average_running_statistics(communication: Communication, roots: Sequence[torch.nn.Module]) -> None:
    """Give all ranks the mean of their running statistics, which each has computed from its own slices."""
    with torch.no_grad():
        for buffer, mean in averaged_running_statistics(communication, roots):
            buffer.copy_(mean)


def averaged_running_statistics(
    communication: Communication, roots: Sequence[torch.nn.Module]
) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Each buffer of running statistics, and its mean over the ranks in float64."""
    kind = batch_norm_kind(torch)
    norms = [module for root in roots for module in root.modules() if isinstance(module, kind)]
    both = [buffer for norm in norms for buffer in (norm.running_mean, norm.running_var)]
    buffers = [buffer for buffer in both if buffer is not None]
    if not buffers:
        return []
    flat = torch.cat([buffer.reshape(-1).double() for buffer in buffers])
    communication.sum(flat)
    flat /= communication.size
    means = torch.split(flat, [buffer.numel() for buffer in buffers])
    return [(buffer, mean.view(buffer.shape)) for buffer, mean in zip(buffers, means, strict=True)]


@dataclass(frozen=True)
class Part:
    """This rank's part of a batch. ``counts``: whether it has one. ``weight``: its loss's weight."""

    counts: bool
    weight: float


class SharedBatchNorm:
    """Replaces ``torch.nn.functional.batch_norm``. ``alone``: a rank asks no others."""

    def __init__(
        self, communication: Communication, part: Callable[[], Part], alone: Callable[[], bool] = bool
    ) -> None:
        self._communication, self._part, self._alone = communication, part, alone
        self.calls = 0

    def around(self, original: Call) -> Call:
        """``batch_norm`` with statistics over all ranks if it trains on a batch."""

        def batch_norm(
            input: torch.Tensor,
            running_mean: torch.Tensor | None,
            running_var: torch.Tensor | None,
            weight: torch.Tensor | None = None,
            bias: torch.Tensor | None = None,
            training: bool = False,
            momentum: float = 0.1,
            eps: float = 1e-5,
        ) -> object:
            if not (training and torch.is_grad_enabled()) or self._alone():
                return original(input, running_mean, running_var, weight, bias, training, momentum, eps)
            self.calls += 1
            part = self._part()
            mean, variance, count = self._statistics(input.detach(), part)
            if running_mean is not None and running_var is not None:
                with torch.no_grad():
                    running_mean.lerp_(mean.to(running_mean.dtype), momentum)
                    unbiased = variance * (count / max(count - 1, 1.0))
                    running_var.lerp_(unbiased.to(running_var.dtype), momentum)
            shape = [1, -1] + [1] * (input.dim() - 2)
            inverse = torch.rsqrt(variance + eps).to(input.dtype).view(shape)
            normed: torch.Tensor = _Normed.apply(  # type: ignore[no-untyped-call]
                input, mean.to(input.dtype).view(shape), inverse, self._communication, part, count
            )
            out = normed if weight is None else normed * weight.to(normed.dtype).view(shape)
            return out if bias is None else out + bias.to(normed.dtype).view(shape)

        return batch_norm

    def _statistics(self, values: torch.Tensor, part: Part) -> tuple[torch.Tensor, torch.Tensor, float]:
        """Mean and variance of each channel over all ranks' samples, and the number of values in each."""
        wide = values.to(torch.promote_types(values.dtype, torch.float32))
        others = [dim for dim in range(values.dim()) if dim != 1]
        channels = values.shape[1]
        told = wide.new_zeros(channels + 1)
        if part.counts:
            told[:channels] = wide.sum(others)
            told[channels] = values.numel() // channels
        self._communication.sum(told)
        count = float(told[channels])
        mean = told[:channels] / count
        shape = [1, -1] + [1] * (values.dim() - 2)
        squares = wide.new_zeros(channels)
        if part.counts:
            squares = (wide - mean.view(shape)).square().sum(others)
        self._communication.sum(squares)
        return mean, squares / count, count


class _Normed(torch.autograd.Function):
    """(values - mean) / deviation, where mean and deviation depend on the values of all ranks.

    A rank's backward pass is through its own loss, and its gradient is weighted later. What comes from the
    other ranks' losses here has their weights already, so this rank's weight is divided out of it.
    """

    @staticmethod
    def forward(
        ctx: Any,
        values: torch.Tensor,
        mean: torch.Tensor,
        inverse: torch.Tensor,
        communication: Communication,
        part: Part,
        count: float,
    ) -> torch.Tensor:
        normed = (values - mean) * inverse
        ctx.save_for_backward(normed, inverse)
        ctx.communication, ctx.part, ctx.count = communication, part, count
        return normed

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        (gradient,) = gradients
        normed, inverse = ctx.saved_tensors
        part = ctx.part
        others = [dim for dim in range(normed.dim()) if dim != 1]
        wide = torch.promote_types(gradient.dtype, torch.float32)
        sums = torch.stack([gradient.to(wide).sum(others), (gradient * normed).to(wide).sum(others)])
        sums *= part.weight
        ctx.communication.sum(sums)
        if not part.weight:
            return torch.zeros_like(gradient), None, None, None, None, None
        shape = [1, -1] + [1] * (normed.dim() - 2)
        first, second = (sums / (ctx.count * part.weight)).to(gradient.dtype)
        inner = gradient - first.view(shape) - normed * second.view(shape)
        return inner * inverse, None, None, None, None, None
