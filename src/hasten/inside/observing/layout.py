"""Whether convolutions' weights are channels last (NHWC)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


def is_channels_last(tensor: Tensor) -> bool:
    """Whether the strides are channels last.

    ``is_contiguous`` is not enough: with one channel or one pixel both layouts are contiguous, and the
    kernels then choose by the strides. For the same reason, convert with ``to``: ``contiguous`` would do
    nothing.
    """
    return _lies_last(tensor.stride(), tensor.shape)


def lies_channels_last(parameters: Iterable[Tensor]) -> bool:
    """Whether each four-dimensional weight that can show the layout has it, and there is one. Kernels of
    convolutions follow their weights.
    """
    telling = [p for p in parameters if p.dim() == 4 and _can_show(p.shape)]
    return bool(telling) and all(map(is_channels_last, telling))


def shows_channels_last(strides: tuple[int, ...], shape: tuple[int, ...]) -> bool:
    """Whether the script must have chosen these strides: no other layout has them."""
    return _lies_last(strides, shape) and _can_show(shape)


def _can_show(shape: tuple[int, ...]) -> bool:
    """With one channel or one pixel, the usual layout has these strides, too."""
    _, channels, height, width = shape
    return channels > 1 and height * width > 1


def _lies_last(strides: tuple[int, ...], shape: tuple[int, ...]) -> bool:
    _, channels, height, width = shape
    return bool(strides == (channels * height * width, 1, width * channels, channels))
