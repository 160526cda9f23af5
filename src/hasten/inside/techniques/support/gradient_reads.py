"""Who looks at gradients: found in what the script's own files say, and as it happens."""

from __future__ import annotations

import ast
import os
import sys
import warnings
from collections.abc import Callable, Iterable
from types import FrameType
from typing import TYPE_CHECKING, Any

from ...samples.script_code import is_librarys
from .source_places import first_place

if TYPE_CHECKING:
    from torch import Tensor

    from ...training import Training

Place = Callable[[], str]
_OF_TORCH = ("torch.optim", "torch.nn.modules.module", "torch._tensor", "torch._dynamo", "torch._functorch")
_CLIPS = ("clip_grad_norm_", "clip_grad_norm", "clip_grad_value_", "unscale_")


def reads_in_source(files: Iterable[str]) -> str:
    """The first place in these Python files where gradients are read, as "train.py:30"; "" if there is none.
    Some scripts read them too rarely to wait for it, such as norms that are logged every hundred steps.
    """
    return first_place(files, _lines_that_read)


def _lines_that_read(tree: ast.Module) -> list[int]:
    called = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    lines = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
            # torch.autograd.grad is called, a tensor's gradient is not
            if node.attr in _CLIPS or (node.attr == "grad" and id(node) not in called):
                lines.append(node.lineno)
        elif isinstance(node, ast.Name) and node.id in _CLIPS:
            lines.append(node.lineno)
    return lines


class GradientReads:
    """Replaces ``Tensor.grad``. ``on_read`` gets the tensor and the place of each read, unless torch's
    optimizers or ``zero_grad`` read it; ``on_reset`` gets tensors whose gradient was set or removed.
    """

    def __init__(
        self, training: Training, on_read: Callable[[Tensor, Place], None], on_reset: Callable[[Tensor], None]
    ) -> None:
        self._on_read, self._on_reset = on_read, on_reset
        self.undo = training.seams.replace(training.torch.Tensor, "grad", self._around)

    def _around(self, plain: Any) -> property:
        read, write = plain.__get__, plain.__set__
        on_read, on_reset = self._on_read, self._on_reset

        def fget(tensor: Tensor) -> object:
            frame = sys._getframe(1)
            by = frame.f_globals.get("__name__") or ""
            if not by.startswith(_OF_TORCH) and not by.startswith("hasten."):
                on_read(tensor, lambda: _place(frame))
            elif frame.f_code.co_name == "zero_grad":
                on_reset(tensor)
            if tensor.is_leaf:
                return read(tensor)
            with warnings.catch_warnings(record=True) as warned:  # torch names the line that calls it: ours
                found = read(tensor)
            for warning in warned:
                warnings.warn(warning.message, stacklevel=2)
            return found

        def fset(tensor: Tensor, value: object) -> None:
            write(tensor, value)
            on_reset(tensor)

        return property(fget, fset, lambda tensor: fset(tensor, None))


def _place(frame: FrameType) -> str:
    """The script's line that led to ``frame``."""
    at: FrameType | None = frame
    while at is not None and is_librarys(at.f_globals.get("__name__")):
        at = at.f_back
    at = at or frame
    return f"{os.path.basename(at.f_code.co_filename)}:{at.f_lineno}"
