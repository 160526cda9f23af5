"""Trained modules whose ``forward`` the script calls directly, where our hooks do not see it: layers that are
trained one by one, for example, each with its own optimizer.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from ..internals.modules import file_of_calls
from ..seams import Call
from ..training import Training
from .obstacles import calls_forward

if TYPE_CHECKING:
    from torch.nn import Module
    from torch.optim import Optimizer

_MOST_LOOKS = 4  # at all live objects, each of which takes a while


class Bypassed:
    """Looks for modules that an optimizer trains although no root with them was ever called; whatever calls
    their ``forward`` is reported as an obstacle.
    """

    def __init__(self, training: Training) -> None:
        self._training = training
        self._looks = 0
        self._undo: list[Callable[[], None]] = []
        self._inside = False
        self._kinds: set[type] = set()

    def stepped(self, optimizer: Optimizer) -> None:
        """Call it after an optimizer's first step."""
        mine = {id(p) for group in optimizer.param_groups for p in group["params"]}
        called = {id(p) for root in self._training.roots for p in root.parameters()}
        if mine & called or self._looks == _MOST_LOOKS or self._training.obstacles:
            return
        self._looks += 1
        for kind in {type(module) for module in self._around(mine)} - self._kinds:
            self._kinds.add(kind)
            self._undo.append(self._training.seams.replace(kind, "forward", self._noting))

    def _around(self, mine: set[int]) -> list[Module]:
        """The modules that hold these parameters. ``type`` and not ``__class__``, which lazy objects
        compute.
        """
        module_class = self._training.torch.nn.Module
        alive: list[Module] = [thing for thing in gc.get_objects() if issubclass(type(thing), module_class)]
        return [m for m in alive if "_parameters" in vars(m) and any(id(p) in mine for p in m.parameters())]

    def _noting(self, original: Call) -> Call:
        of_calls = file_of_calls(self._training.torch)
        is_grad_enabled = self._training.torch.is_grad_enabled

        def forward(module: Module, *args: object, **kwargs: object) -> object:
            caller = sys._getframe(1)
            if self._inside or caller.f_code.co_filename == of_calls or not is_grad_enabled():
                return original(module, *args, **kwargs)
            self._inside = True
            try:
                return original(module, *args, **kwargs)
            finally:
                self._inside = False
                self._found(type(module).__name__, f"{caller.f_code.co_filename}:{caller.f_lineno}")

        return forward

    def _found(self, kind: str, where: str) -> None:
        self._training.obstacles[calls_forward(kind, where)] = None
        while self._undo:
            self._undo.pop()()
