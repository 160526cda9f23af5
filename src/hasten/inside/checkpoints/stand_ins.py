"""What a forward pass returned before for the same kind of input, in place of computing it again."""

from __future__ import annotations

import copy
import weakref
from collections import OrderedDict
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

from .cannot import Diverged

_MOST = 64  # kinds of input of one module


class StandIns:
    """The first pass of each kind of input is computed, with whatever weights there are: only the shapes of
    what it returns matter, since every value that the script fetches is played back.
    """

    def __init__(self, torch: ModuleType) -> None:
        self._torch, self._over = torch, False
        self._known: weakref.WeakKeyDictionary[Any, OrderedDict[Any, Any]] = weakref.WeakKeyDictionary()
        self.anchor = torch.zeros((), requires_grad=True)
        self._stand_in = _function(torch, self.is_over)

    def is_over(self) -> bool:
        """Whether backward passes are computed from here on."""
        return self._over

    def forget(self) -> None:
        """All that was kept: the training goes on."""
        self._over = True
        self._known.clear()

    def of(self, module: Any, given: Any, more: Any, compute: Callable[[], Any]) -> Any:
        """The result, and whether it was computed."""
        torch, known = self._torch, self._known.setdefault(module, OrderedDict())
        modes = (module.training, torch.is_grad_enabled(), torch.is_inference_mode_enabled())
        autocast = tuple(torch.is_autocast_enabled(kind) for kind in ("cpu", "cuda"))
        key = (modes, autocast, self._kind((given, more)))
        if key in known:
            known.move_to_end(key)
            inputs = self._differentiable((given, more))
            return self._copied(known[key], lambda kept: self._put(kept, inputs)), False
        result = compute()
        known[key] = self._copied(result, lambda tensor: (tensor.detach().clone(), tensor.requires_grad))
        if len(known) > _MOST:
            known.popitem(last=False)
        return result, True

    def zeros_for(self, tensor: Any) -> Any:
        """In place of a gradient."""
        return self._put((self._torch.zeros_like(tensor, requires_grad=False), True))

    def _differentiable(self, value: Any) -> list[Any]:
        """Tensors that a backward pass leads to; they get zeros."""
        if self._torch.is_tensor(value):
            return [value] if value.requires_grad else []
        if isinstance(value, dict):
            value = list(value.values())
        parts = value if isinstance(value, (list, tuple)) else ()
        return [one for part in parts for one in self._differentiable(part)]

    def _put(self, kept: Any, inputs: Sequence[Any] = ()) -> Any:
        if not (isinstance(kept, tuple) and len(kept) == 2 and self._torch.is_tensor(kept[0])):
            return kept
        tensor, requires_grad = kept
        if requires_grad and self._torch.is_grad_enabled():
            return self._stand_in.apply(self.anchor, tensor, *inputs)
        return tensor.clone()

    def _kind(self, value: Any) -> Any:
        """Equal for inputs of equal shapes."""
        if self._torch.is_tensor(value):
            return tuple(value.shape), value.dtype, value.device, value.requires_grad
        if isinstance(value, (list, tuple)):
            return type(value), tuple(map(self._kind, value))
        if isinstance(value, dict):
            return type(value), tuple((key, self._kind(part)) for key, part in value.items())
        if isinstance(value, (bool, int, float, str, type(None))):
            return value
        if hasattr(value, "__dict__") and not callable(value):
            return type(value), self._kind(vars(value))
        return type(value)

    def _copied(self, value: Any, change: Callable[[Any], Any]) -> Any:
        """``value`` with each tensor - or what stands for one - changed, and all that holds them new."""
        torch = self._torch
        pair = (
            type(value) is tuple and len(value) == 2 and torch.is_tensor(value[0]) and type(value[1]) is bool
        )
        if torch.is_tensor(value) or pair:
            return change(value)
        if isinstance(value, dict):
            made = copy.copy(value)
            for key, part in value.items():
                made[key] = self._copied(part, change)
            if hasattr(value, "__dict__"):  # like a dataclass that is a dictionary, too
                for name, part in vars(value).items():
                    made.__dict__[name] = self._copied(part, change)
            return made
        if isinstance(value, tuple):
            parts = [self._copied(part, change) for part in value]
            return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
        if isinstance(value, list):
            return [self._copied(part, change) for part in value]
        if (
            hasattr(value, "__dict__")
            and not isinstance(value, (type, torch.nn.Module))
            and not callable(value)
        ):
            made = copy.copy(value)
            for name, part in vars(value).items():
                made.__dict__[name] = self._copied(part, change)
            return made
        return value


def _function(torch: ModuleType, is_over: Callable[[], bool]) -> Any:
    class StandIn(torch.autograd.Function):  # type: ignore[misc, name-defined]
        @staticmethod
        def forward(context: Any, anchor: Any, template: Any, *inputs: Any) -> Any:
            context.inputs = [(one.shape, one.dtype, one.device) for one in inputs]
            return template.clone()

        @staticmethod
        def backward(context: Any, *gradients: Any) -> Any:
            if not is_over():
                needed = context.needs_input_grad[2:]
                zeros = [
                    torch.zeros(shape, dtype=dtype, device=device) if needs else None
                    for needs, (shape, dtype, device) in zip(needed, context.inputs, strict=True)
                ]
                return None, None, *zeros
            raise Diverged(
                "after the restart the script went backward through a forward pass from before it, which was "
                "not computed"
            )

    return StandIn
