"""2-d convolutions computed as what they are: products of matrices, or convolutions over one axis."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, Any

from ...internals.other_functions import is_watched
from ...observing.layout import is_channels_last
from ...observing.product_convolutions import Form, Sliding, form_of

if TYPE_CHECKING:
    from torch import Tensor

_FEW = 2  # samples that are computed both ways
_TOLERANCE = 0.05  # of the largest output: rounding differs by less, wrong windows by more
_CANCELLED = 1e-3  # of the largest that an output could be: rounding, where what is added nearly cancels
_TYPES = ("float32", "bfloat16", "float16")


@dataclass(frozen=True)
class Convolution:
    """A call of ``conv2d`` that can be computed as a product."""

    form: Form
    pictures: Tensor  # (batch, channels, height, width)
    weight: Tensor
    bias: Tensor | None
    sliding: Sliding

    @classmethod
    def of(
        cls,
        torch: ModuleType,
        input: Any = None,
        weight: Any = None,
        bias: Any = None,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: Any = 1,
        **unknown: Any,
    ) -> Convolution | None:
        """From the arguments of ``conv2d``; None if torch must compute it, or say what is wrong with them."""
        if unknown or not (fits(torch, input, weight) and _is_bias(torch, bias, weight)):
            return None
        sliding = Sliding.of(stride, padding, dilation, groups)
        form = form_of(input.shape[2:], weight.shape, sliding) if sliding is not None else None
        if sliding is None or form is None:
            return None
        if form == "patches" and torch.get_float32_matmul_precision() != "highest":
            return None  # that is asked for products, and not for convolutions
        return cls(form, input, weight, bias, sliding)

    def of_few(self) -> Convolution:
        """The same of a few samples, apart from any graph."""
        bias = None if self.bias is None else self.bias.detach()
        return Convolution(self.form, self.pictures[:_FEW].detach(), self.weight.detach(), bias, self.sliding)

    def by(self, conv2d: Callable[..., Tensor]) -> Tensor:
        how = self.sliding
        return conv2d(
            self.pictures, self.weight, self.bias, how.stride, how.padding, how.dilation, how.groups
        )

    def multiplied(self, torch: ModuleType) -> Tensor:
        """What ``conv2d`` returns, (batch, channels, height, width), but for its layout. It calls
        torch.flatten, not the method: channels_last watches that, and would take this for the script's call.
        """
        if self.form == "patches":
            return _of_patches(torch, self.pictures, self.weight, self.bias)
        spanned, along = (3, 2) if self.form == "spans width" else (2, 3)
        order, how, both = (0, 1, spanned, along), self.sliding, (self.pictures, self.weight)
        lines, kernel = (torch.flatten(torch.permute(one, order), 1, 2) for one in both)
        moves = (of[along - 2] for of in (how.stride, how.padding, how.dilation))
        found: Tensor = torch.unsqueeze(torch.conv1d(lines, kernel, self.bias, *moves, how.groups), spanned)
        return found


def fits(torch: ModuleType, pictures: Any, weight: Any) -> bool:
    """Whether these can be multiplied. What a transform or a script's own mode looks at is left to torch."""
    if is_watched(torch):
        return False
    usual = (torch.Tensor, torch.nn.Parameter)
    return (
        type(pictures) in usual
        and type(weight) in usual
        and pictures.dim() == weight.dim() == 4
        and pictures.device.type == weight.device.type == "cpu"
        and pictures.layout == weight.layout == torch.strided
        and str(pictures.dtype).removeprefix("torch.") in _TYPES
        and pictures.numel() > 0
    )


def _is_bias(torch: ModuleType, bias: Any, weight: Tensor) -> bool:
    if bias is None:
        return True
    usual = type(bias) in (torch.Tensor, torch.nn.Parameter) and bias.shape == weight.shape[:1]
    return usual and bias.dtype == weight.dtype and bias.device == weight.device


def _of_patches(torch: ModuleType, pictures: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    count, _, height, width = pictures.shape
    high, wide = weight.shape[2:]
    rows, columns = height // high, width // wide
    whole = pictures[:, :, : rows * high, : columns * wide]
    cut = torch.unflatten(torch.unflatten(whole, 3, (columns, wide)), 2, (rows, high))
    patches = torch.flatten(torch.flatten(torch.permute(cut, (0, 2, 4, 1, 3, 5)), 3), 0, 2)
    kernels = torch.flatten(weight, 1).t()
    found = torch.mm(patches, kernels) if bias is None else torch.addmm(bias, patches, kernels)
    made: Tensor = torch.permute(torch.unflatten(found, 0, (count, rows, columns)), (0, 3, 1, 2))
    return made


class Layouts:
    """For each kind of call, the layout of what torch returns, found by computing a few samples both ways."""

    def __init__(self, torch: ModuleType) -> None:
        self._torch = torch
        self._known: dict[tuple[Any, ...], Any] = {}
        self.differing: list[tuple[int, ...]] = []  # shapes of inputs

    def of(self, called: Convolution, original: Callable[..., Tensor]) -> Any:
        """A memory format; None if torch must compute it."""
        kind = self._kind(called)
        if kind not in self._known:
            few = called.of_few()
            with self._torch.no_grad():
                theirs, ours = few.by(original), few.multiplied(self._torch)
                if not bool(theirs.isfinite().all()):
                    return None  # nothing can be seen in these
                self._known[kind] = self._layout_of(theirs) if _are_alike(few, theirs, ours) else None
            if self._known[kind] is None:
                self.differing.append(tuple(called.pictures.shape))
        return self._known[kind]

    def _kind(self, called: Convolution) -> tuple[Any, ...]:
        """The layout that torch chooses follows the strides."""
        shapes = called.pictures.shape[1:], called.weight.shape
        described = ((one.stride(), one.dtype) for one in (called.pictures, called.weight))
        return called.form, called.sliding, *shapes, *described, self._torch.is_autocast_enabled("cpu")

    def _layout_of(self, found: Tensor) -> Any:
        if is_channels_last(found):
            return self._torch.channels_last
        return self._torch.contiguous_format if found.is_contiguous() else None


def laid_out(found: Tensor, layout: Any) -> Tensor:
    """With the strides of that memory format: ``contiguous`` leaves those that both formats could have, and
    ``to`` leaves those that neither has.
    """
    return found.contiguous(memory_format=layout).to(memory_format=layout)


def _are_alike(called: Convolution, theirs: Tensor, ours: Tensor) -> bool:
    if ours.dtype != theirs.dtype or ours.shape != theirs.shape:
        return False
    most = called.pictures.abs().max() * called.weight.abs().sum(dim=(1, 2, 3)).max()
    apart, allowed = (ours - theirs).abs().max(), _TOLERANCE * theirs.abs().max()
    return bool(apart <= allowed) or bool(apart <= _CANCELLED * most)
