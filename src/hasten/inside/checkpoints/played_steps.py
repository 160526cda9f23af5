"""Steps of optimizers that move nothing, but leave the state behind that a script's names may lead to."""

from __future__ import annotations

import weakref
from types import ModuleType
from typing import Any


class PlayedSteps:
    """A parameter that has no gradient is not moved. An optimizer makes the state of a parameter at the first
    step with its gradient: that step is made with a gradient of zeros, and what it moved is put back.
    """

    def __init__(self, torch: ModuleType) -> None:
        self._torch = torch
        self._made: weakref.WeakKeyDictionary[Any, dict[int, tuple[weakref.ref[Any], bool]]] = (
            weakref.WeakKeyDictionary()
        )
        self._gradients: list[tuple[Any, Any]] = []
        self._values: list[tuple[Any, Any]] = []  # of parameters, before the first step with them

    def begin(self, optimizer: Any) -> None:
        torch = self._torch
        first = not isinstance(optimizer, torch.optim.SparseAdam)  # that takes no such gradient
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                if parameter.grad is None:
                    continue
                self._gradients.append((parameter, parameter.grad))
                parameter.grad = None
                if first and not self._has_state(optimizer, parameter):
                    self._values.append((parameter, parameter.detach().clone()))
                    parameter.grad = torch.zeros_like(parameter, requires_grad=False)

    def _has_state(self, optimizer: Any, parameter: Any) -> bool:
        """As far as it makes any. A script may throw it away, and begin anew."""
        known, keeps = self._made.get(optimizer, {}).get(id(parameter), (None, False))
        return known is not None and known() is parameter and (not keeps or parameter in optimizer.state)

    def end(self, optimizer: Any) -> None:
        for parameter, values in self._values:
            parameter.data.copy_(values)
            made = self._made.setdefault(optimizer, {})
            made[id(parameter)] = weakref.ref(parameter), parameter in optimizer.state
        for parameter, gradient in self._gradients:
            parameter.grad = gradient
        self._gradients, self._values = [], []
