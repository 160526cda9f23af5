"""Tensors of a lowered pass that its output does not show: those that modules keep as attributes, and those
in objects that are returned. Scripts read them, and expect float32.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from dataclasses import is_dataclass
from types import ModuleType
from typing import TYPE_CHECKING, Any

from ...class_names import module_of
from ...internals.other_functions import leaves
from ...living import Living
from ...structures import map_tensors

if TYPE_CHECKING:
    from torch import Tensor
    from torch import dtype as DType
    from torch.nn import Module

_PLAIN = (int, float, complex, str, bytes, type(None), type)
_INSTALLED = {"site-packages", "dist-packages"}
_DEPTH = 4  # of lists within lists
Place = tuple[dict[str, Any], str]  # a module's attributes, and the name of one


class KeptTensors:
    """Looks at all modules in passes 1, 2, 4, 8, ... of a root, and in the others where it has found any."""

    def __init__(self, torch: ModuleType, reduced: DType) -> None:
        self._torch, self._reduced = torch, reduced
        self._roots: Living[_Root] = Living()

    def before(self, root: Module) -> bool:
        """A pass begins. Returns whether it is one in which all is looked at."""
        known = self._roots.get(root)
        if known is None:
            self._roots.put(root, known := _Root())
            for attributes, name in _places(root):
                for tensor in self._reduced_in(attributes[name]):
                    known.scripts_own.put(tensor, None)
        known.passes += 1
        return known.passes & (known.passes - 1) == 0

    def after(self, root: Module, looked_at: bool) -> None:
        """Puts float32 in place of what came in this pass."""
        known = self._roots.get(root)
        if known is None:
            return
        if looked_at:
            known.keeping = [place for place in _places(root) if self._reduced_in(place[0][place[1]])]
        for attributes, name in known.keeping:
            if name in attributes:
                attributes[name] = self._in_float32(attributes[name], known.scripts_own)

    def opaque(self, root: Module, output: object) -> str:
        """Why tensors that the root returns would stay in lower precision; "" if they do not. In this output
        they do not either, as far as they are an object's attributes.
        """
        known = self._roots.get(root)
        why = ""
        for part in leaves(self._torch, output) if known is not None else []:
            kind = type(part)
            shown = isinstance(part, (*_PLAIN, dict)) or is_dataclass(part) or self._torch.is_tensor(part)
            if shown or _is_of_a_library(kind):
                continue
            attributes = getattr(part, "__dict__", {})
            if not hasattr(part, "__dict__") or any(map(self._reduced_in, attributes.values())):
                why = f"the model returns a {kind.__name__}, in which tensors would stay in lower precision"
            for name in attributes:
                attributes[name] = self._in_float32(attributes[name], Living())
        return why

    def passes_of(self, root: Module) -> int:
        known = self._roots.get(root)
        return 0 if known is None else known.passes

    def _reduced_in(self, value: object) -> list[Tensor]:
        return [tensor for tensor in self._tensors_in(value, _DEPTH) if tensor.dtype == self._reduced]

    def _tensors_in(self, value: Any, depth: int) -> Iterator[Tensor]:
        if self._torch.is_tensor(value):
            yield value
        elif depth and isinstance(value, (list, tuple, dict)):
            for item in value.values() if isinstance(value, dict) else value:
                yield from self._tensors_in(item, depth - 1)

    def _in_float32(self, value: Any, but: Living[None]) -> Any:
        """Lists and dicts stay the same objects. A tensor that keeps its gradient does, too."""
        if self._torch.is_tensor(value):
            stays = value.dtype != self._reduced or value.retains_grad or value in but
            return value if stays else value.float()
        if not self._reduced_in(value):
            return value
        if isinstance(value, tuple):
            return map_tensors(self._torch, value, lambda tensor: self._in_float32(tensor, but))
        for key in list(value) if isinstance(value, dict) else range(len(value)):
            value[key] = self._in_float32(value[key], but)
        return value


class _Root:
    """What is known of one root."""

    def __init__(self) -> None:
        self.passes = 0
        self.scripts_own: Living[None] = Living()  # tensors that were of lower precision before
        self.keeping: list[Place] = []


def _places(root: Module) -> Iterator[Place]:
    for module in root.modules():
        for name in list(vars(module)):
            yield vars(module), name


def _is_of_a_library(kind: type) -> bool:
    """Other than torch: what keeps keys and values for the next pass is not read by scripts."""
    module = module_of(kind)
    path = getattr(sys.modules.get(module), "__file__", None) or ""
    return module.partition(".")[0] != "torch" and bool(_INSTALLED & set(path.split(os.sep)))
