"""Which 2-d convolutions are products of matrices, or convolutions over one axis.

A kernel that moves by its own size cuts its input into patches, and each output is a product of a patch and
the weight. A kernel that spans the width or the height of its input moves along the other axis only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from torch.nn import Conv2d

Form = Literal["patches", "spans width", "spans height"]
_MOST_IN_PATCHES, _MOST_SPANNED = 15, 64  # channels of a group's input: with more, torch is as fast
_WIDTH, _HEIGHT = 1, 0
_AXES: tuple[tuple[int, Form], ...] = ((_WIDTH, "spans width"), (_HEIGHT, "spans height"))


@dataclass(frozen=True)
class Sliding:
    """How a kernel moves over its input, along height and width."""

    stride: tuple[int, int]
    padding: tuple[int, int]
    dilation: tuple[int, int]
    groups: int = 1

    @classmethod
    def of(cls, stride: Any, padding: Any, dilation: Any, groups: int) -> Sliding | None:
        """From arguments of ``conv2d``; None unless all are numbers: padding "same" is not."""
        moves, around, apart = map(_two, (stride, 0 if padding == "valid" else padding, dilation))
        if moves is None or around is None or apart is None:
            return None
        return cls(moves, around, apart, groups)


def form_of(sides: Sequence[int], weight: Sequence[int], sliding: Sliding) -> Form | None:
    """``sides`` of the input, height and width; ``weight``: a weight's shape, (out, in a group, height,
    width). None if it is a convolution like any other, or one of many channels.
    """
    if _makes_patches(weight, sliding):
        return "patches"
    for axis, form in _AXES:
        if sides[axis] == weight[2 + axis] > 1 and _may_span(axis, weight, sliding):
            return form
    return None


def may_be_product(convolution: Conv2d) -> bool:
    """Whether one of these modules may have such a form: what it is called with is not known here."""
    sliding = Sliding.of(convolution.stride, convolution.padding, convolution.dilation, convolution.groups)
    weight = (0, convolution.in_channels // convolution.groups, *convolution.kernel_size)
    if sliding is None:
        return False
    spans = (weight[2 + axis] > 1 and _may_span(axis, weight, sliding) for axis, _ in _AXES)
    return _makes_patches(weight, sliding) or (weight[2] != weight[3] and any(spans))


def _makes_patches(weight: Sequence[int], sliding: Sliding) -> bool:
    kernel = tuple(weight[2:])
    return (
        kernel == sliding.stride != (1, 1)
        and sliding.padding == (0, 0)
        and sliding.dilation == (1, 1)
        and sliding.groups == 1
        and weight[1] <= _MOST_IN_PATCHES
    )


def _may_span(axis: int, weight: Sequence[int], sliding: Sliding) -> bool:
    unpadded = sliding.padding[axis] == 0 and sliding.dilation[axis] == 1
    return unpadded and weight[1] <= _MOST_SPANNED


def _two(size: Any) -> tuple[int, int] | None:
    each = tuple(size) if isinstance(size, (tuple, list)) else (size,)
    if not all(type(one) is int for one in each) or len(each) not in (1, 2):
        return None
    return each[0], each[-1]
