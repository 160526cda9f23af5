"""Max pooling in place of torch's, where it gives the same bits: see max_pooling.cpp."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from ...internals.other_functions import is_observed, is_transformed
from ...process.native_code import CannotCompile, compiler, library

if TYPE_CHECKING:
    from torch import Tensor

SOURCE = Path(__file__).with_name("max_pooling.cpp")
LEAST_CHANNELS = 8  # they fill a vector register
_WINDOW = 2
_TYPES = ("float32", "bfloat16")

_OPENMP = "libgomp.so.1"  # which the compiler links: another one would bring a second set of threads

Pool = Callable[["Tensor"], "Tensor"]


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
    if torch.jit.is_tracing() or is_transformed(torch) or is_observed(torch):
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


def pooling(torch: ModuleType) -> Pool:
    """Raises CannotCompile."""
    if not torch_computes_with(_OPENMP):
        raise CannotCompile(f"torch's threads are not those of {_OPENMP}, which g++ would use")
    kernels = library(SOURCE, compiler(os.environ.get("CXX") or "g++"), ("-std=c++17", "-fopenmp"))
    last = torch.channels_last
    once: Any = torch.autograd.function.once_differentiable

    def called(name: str, dtype: Any, *arguments: Any) -> None:
        kernel = getattr(kernels, f"hasten_{name}_{str(dtype).removeprefix('torch.')}")
        pointers = [ctypes.c_void_p(one.data_ptr()) for one in arguments[:3]]
        kernel.restype = None
        kernel(*pointers, *map(ctypes.c_int64, arguments[3]))

    def pooled(pictures: Tensor) -> tuple[Tensor, Tensor]:
        count, channels, height, width = pictures.shape
        made = [
            torch.empty(
                (count, channels, height // _WINDOW, width // _WINDOW),
                dtype=dtype,
                device="cpu",
                memory_format=last,
            )
            for dtype in (pictures.dtype, torch.uint8)
        ]
        called("pool", pictures.dtype, pictures, *made, pictures.shape)
        return made[0], made[1]

    class MaxPooled(torch.autograd.Function):  # type: ignore[misc, name-defined]
        @staticmethod
        def forward(context: Any, pictures: Tensor) -> Tensor:
            found, places = pooled(pictures)
            context.shape = pictures.shape
            context.save_for_backward(places)
            return found

        @staticmethod
        @once  # type: ignore[untyped-decorator]
        def backward(context: Any, gradient: Tensor) -> Tensor:
            (places,) = context.saved_tensors
            given = gradient.contiguous(memory_format=last)
            whole = torch.empty(context.shape, dtype=given.dtype, device="cpu", memory_format=last)
            called("unpool", given.dtype, given, places, whole, context.shape)
            return whole  # type: ignore[no-any-return]

    def pool(pictures: Tensor) -> Tensor:
        if pictures.requires_grad and torch.is_grad_enabled():
            return MaxPooled.apply(pictures)  # type: ignore[no-any-return]
        return pooled(pictures)[0]

    return pool
