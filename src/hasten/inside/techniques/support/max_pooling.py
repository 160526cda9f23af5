"""Max pooling in place of torch's, where it gives the same bits: see max_pooling.cpp."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from ...internals.other_functions import is_watched
from ...process.native_code import CannotCompile, compiler, library

if TYPE_CHECKING:
    from torch import Tensor
    from torch import dtype as DType

SOURCE = Path(__file__).with_name("max_pooling.cpp")
LEAST_CHANNELS = 8  # they fill a vector register
_WINDOW = 2
_BOTH = [_WINDOW, _WINDOW]
_TYPES = ("float32", "bfloat16")
_OPENMP = "libgomp.so.1"  # which the compiler links: another one would bring a second set of threads


def separate_windows(
    kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False
) -> bool:
    """Whether these arguments of ``max_pool2d`` mean windows of 2x2 numbers that do not overlap."""
    return (
        _both(kernel_size) == (_WINDOW, _WINDOW)
        and (stride is None or stride in ([], ()) or _both(stride) == (_WINDOW, _WINDOW))
        and _both(padding) == (0, 0)
        and _both(dilation) == (1, 1)
        and not ceil_mode
    )


def _both(size: Any) -> tuple[Any, ...]:
    return tuple(size) * (2 // len(size)) if isinstance(size, (tuple, list)) and size else (size, size)


def fits(torch: ModuleType, pictures: Any) -> bool:
    """Whether the kernel can pool this. What a transform or a script's own mode looks at is left to torch."""
    if is_watched(torch):
        return False
    if type(pictures) is not torch.Tensor or pictures.dim() != 4 or pictures.device.type != "cpu":
        return False
    count, channels, height, width = pictures.shape
    return (
        str(pictures.dtype).removeprefix("torch.") in _TYPES
        and channels >= LEAST_CHANNELS
        and count > 0
        and min(height, width) >= _WINDOW
        and pictures.is_contiguous(memory_format=torch.channels_last)
    )


def torch_computes_with(openmp: str) -> bool:
    """Whether this library is loaded already, under the name by which ours asks for it."""
    try:
        lines = Path("/proc/self/maps").read_text(errors="replace").splitlines()
    except OSError:
        return False
    return any(os.path.basename(line).startswith(openmp) for line in lines)


class Pooling:
    """``pool`` does what ``max_pool2d`` does. Raises CannotCompile."""

    def __init__(self, torch: ModuleType) -> None:
        if not torch_computes_with(_OPENMP):
            raise CannotCompile(f"torch's threads are not those of {_OPENMP}, which g++ would use")
        by = compiler(os.environ.get("CXX") or "g++")
        self._kernels = library(SOURCE, by, ("-std=c++17", "-fopenmp"))
        self._torch = torch
        self._with_graph = _with_graph(torch, self)

    def pool(self, pictures: Tensor) -> Tensor:
        if pictures.requires_grad and self._torch.is_grad_enabled():
            return self._with_graph(pictures)
        return self.pooled(pictures)[0]

    def pooled(self, pictures: Tensor) -> tuple[Tensor, Tensor]:
        """The largest numbers, and where in its window each was, 0 to 3."""
        count, channels, height, width = pictures.shape
        shape = count, channels, height // _WINDOW, width // _WINDOW
        found, places = self._empty(shape, pictures.dtype), self._empty(shape, self._torch.uint8)
        self._call("pool", pictures.dtype, (pictures, found, places), pictures.shape)
        return found, places

    def unpooled(self, gradient: Tensor, places: Tensor, shape: Sequence[int]) -> Tensor:
        """The gradient of pictures of this shape."""
        given = gradient.contiguous(memory_format=self._torch.channels_last)
        whole = self._empty(shape, given.dtype)
        self._call("unpool", given.dtype, (given, places, whole), shape)
        return whole

    def agrees(self, pictures: Tensor) -> bool:
        """Whether it gives torch's bits for these, forward and backward. Nothing is differentiated for that:
        who watches a training's backward passes must not see one.
        """
        found, places = self.pooled(pictures)
        aten = self._torch.ops.aten
        theirs, indices = aten.max_pool2d_with_indices(pictures, _BOTH)
        how = _BOTH, _BOTH, [0, 0], [1, 1], False, indices
        whole = aten.max_pool2d_with_indices_backward(theirs, pictures, *how)
        ours = self.unpooled(found, places, pictures.shape)
        return self._alike(found, theirs) and self._alike(ours, whole)

    def _alike(self, one: Tensor, other: Tensor) -> bool:
        """To the last bit; where both are NaN, too."""
        whole = self._torch.int16 if one.element_size() == 2 else self._torch.int32
        same = one.view(whole) == other.view(whole)
        return bool((same | (one.isnan() & other.isnan())).all())

    def _empty(self, shape: Sequence[int], dtype: DType) -> Tensor:
        torch = self._torch
        made: Tensor = torch.empty(shape, dtype=dtype, device="cpu", memory_format=torch.channels_last)
        return made

    def _call(self, name: str, dtype: DType, tensors: Sequence[Tensor], shape: Sequence[int]) -> None:
        kernel = getattr(self._kernels, f"hasten_{name}_{str(dtype).removeprefix('torch.')}")
        kernel.restype = None
        kernel(*(ctypes.c_void_p(one.data_ptr()) for one in tensors), *map(ctypes.c_int64, shape))


def _with_graph(torch: ModuleType, pooling: Pooling) -> Callable[[Tensor], Tensor]:
    once: Any = torch.autograd.function.once_differentiable

    class MaxPooled(torch.autograd.Function):  # type: ignore[misc, name-defined]
        @staticmethod
        def forward(context: Any, pictures: Tensor) -> Tensor:
            found, places = pooling.pooled(pictures)
            context.shape = pictures.shape
            context.save_for_backward(places)
            return found

        @staticmethod
        @once  # type: ignore[untyped-decorator]
        def backward(context: Any, gradient: Tensor) -> Tensor:
            (places,) = context.saved_tensors
            return pooling.unpooled(gradient, places, context.shape)

    return MaxPooled.apply  # type: ignore[no-any-return]
