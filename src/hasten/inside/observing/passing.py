"""Modules that a script makes anew for each pass, around the model that it trains.

Solvers of differential equations do so, and losses that call the model. Such a module is called first, so it
looks like the trained one; but it is gone when the optimizer steps, and its parameters are not.
"""

from __future__ import annotations

import weakref
from functools import partial
from typing import TYPE_CHECKING

from ..training import Training

if TYPE_CHECKING:
    from torch.nn import Module
    from torch.optim import Optimizer


class PassingRoots:
    """Tells them by their class, once the first one is gone."""

    def __init__(self) -> None:
        self._living: dict[int, weakref.ref[Module]] = {}
        self._gone: list[tuple[type[Module], set[int]]] = []  # and the ids of what was trained in it
        self._kinds: weakref.WeakSet[type[Module]] = weakref.WeakSet()

    def __contains__(self, module: Module) -> bool:
        """Whether others like it were made for one pass."""
        return type(module) in self._kinds

    def came(self, root: Module, trained: set[int]) -> None:
        """``trained``: the ids of its parameters that an optimizer trains."""
        key = id(root)
        self._living[key] = weakref.ref(root, partial(self._went, key, type(root), trained))

    def _went(self, key: int, kind: type[Module], trained: set[int], ref: weakref.ref[Module]) -> None:
        del self._living[key]
        self._gone.append((kind, trained))

    def optimizer_came(self) -> None:
        """What went before has no part in what it will train."""
        self._gone.clear()

    def left_behind(self, optimizer: Optimizer, training: Training) -> set[int]:
        """The ids of parameters that the optimizer has just updated, and whose root is gone."""
        if not self._gone:
            return set()
        gone, self._gone = self._gone, []
        left = {id(p) for group in optimizer.param_groups for p in group["params"]}
        left -= {id(p) for root in training.roots for p in root.parameters()}
        self._kinds.update(kind for kind, trained in gone if trained & left)
        return left & {one for _, trained in gone for one in trained}
