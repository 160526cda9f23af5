"""A model made smaller in place, whose checkpoints, and those of its optimizers, keep the shapes they had."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, Any

from ...internals.modules import LOAD, SAVE
from ...seams import Call
from ...training import Training
from .cutting import Cut
from .slices import Kept

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module
    from torch.optim import Optimizer


class FullSize:
    """Cuts roots, and hooks into creating and loading state dicts. Parameters stay the same objects."""

    def __init__(self, training: Training) -> None:
        self._training = training
        self._of_parameter: dict[int, tuple[weakref.ref[Tensor], Kept]] = {}
        self._of_module: weakref.WeakKeyDictionary[Module, dict[str, Kept]] = weakref.WeakKeyDictionary()
        self._optimizers: weakref.WeakSet[Optimizer] = weakref.WeakSet()
        self._stands = False

    def make_smaller(self, root: Module, cut: Cut) -> None:
        """Remove from ``root`` and its optimizers' state what ``cut`` does not keep."""
        torch = self._training.torch
        if not self._stands:
            self._stands = True
            self._stand_at_modules(torch)
        modules = dict(root.named_modules())
        parameters, buffers = dict(root.named_parameters()), dict(root.named_buffers())
        with torch.no_grad():
            for name, kept in cut.kept.items():
                path, _, own = name.rpartition(".")
                self._of_module.setdefault(modules[path], {})[own] = kept
                if name in parameters:
                    self._cut_parameter(torch, parameters[name], kept)
                else:
                    buffers[name].data = kept.sliced(buffers[name])
        for path, attributes in cut.attributes.items():
            modules[path].__dict__.update(attributes)
        torch.clear_autocast_cache()  # of the former weights

    def _cut_parameter(self, torch: ModuleType, parameter: Tensor, kept: Kept) -> None:
        gradient, small = parameter.grad, kept.sliced(parameter.data)
        parameter.grad = None
        # autograd remembers the shape of a leaf as long as an old graph lives, but not over a change of type
        other = torch.float32 if parameter.dtype == torch.float64 else torch.float64
        parameter.data = parameter.data.new_empty(0, dtype=other)
        parameter.data = small
        if gradient is not None:
            parameter.grad = kept.sliced(gradient)
        for optimizer in self._training.optimizers:
            held = optimizer.state.get(parameter) or {}
            for key, value in held.items():
                if torch.is_tensor(value) and tuple(value.shape) == kept.shape:
                    held[key] = kept.sliced(value)
        self._of_parameter[id(parameter)] = (weakref.ref(parameter), kept)

    def _kept_of(self, parameter: Tensor) -> Kept | None:
        known = self._of_parameter.get(id(parameter))
        return known[1] if known is not None and known[0]() is parameter else None

    # ---- state dicts
    def _stand_at_modules(self, torch: ModuleType) -> None:
        """Hooks into the class, so that pickles and copies of modules show nothing of it."""

        def saving(original: Call) -> Call:
            def _save_to_state_dict(
                module: Module, destination: dict[str, Tensor], prefix: str, keep_vars: bool
            ) -> None:
                original(module, destination, prefix, keep_vars)
                for name, kept in self._of_module.get(module, {}).items():
                    value = destination.get(prefix + name)
                    if value is not None and tuple(value.shape) == kept.small_shape:
                        destination[prefix + name] = kept.restored(value)

            return _save_to_state_dict

        def loading(original: Call) -> Call:
            def _load_from_state_dict(
                module: Module, state: dict[str, Tensor], prefix: str, *more: object
            ) -> None:
                for name, kept in self._of_module.get(module, {}).items():
                    value = state.get(prefix + name)
                    if value is not None and tuple(value.shape) == kept.shape:
                        state[prefix + name] = kept.sliced(value)
                original(module, state, prefix, *more)

            return _load_from_state_dict

        self._training.seams.replace(torch.nn.Module, SAVE, saving)
        self._training.seams.replace(torch.nn.Module, LOAD, loading)

    def watch_optimizer(self, optimizer: Optimizer) -> None:
        """From now on the optimizer's state dicts have full size, whatever is cut later."""
        if optimizer in self._optimizers:
            return
        self._optimizers.add(optimizer)
        seams = self._training.seams
        seams.on_undo(optimizer.register_state_dict_post_hook(self._saved).remove)
        seams.on_undo(optimizer.register_load_state_dict_pre_hook(self._loaded).remove)

    def _saved(self, optimizer: Optimizer, state: dict[str, Any]) -> dict[str, Any]:
        return self._with(optimizer, state, lambda kept: kept.small_shape, Kept.restored)

    def _loaded(self, optimizer: Optimizer, state: dict[str, Any]) -> dict[str, Any]:
        return self._with(optimizer, state, lambda kept: kept.shape, Kept.sliced)

    def _with(
        self,
        optimizer: Optimizer,
        state: dict[str, Any],
        found: Callable[[Kept], tuple[int, ...]],
        change: Callable[[Kept, Tensor], Tensor],
    ) -> dict[str, Any]:
        """``state`` with every tensor changed that has the shape ``found`` gives for its parameter."""
        torch = self._training.torch
        owned = [p for group in optimizer.param_groups for p in group["params"]]
        changed = dict(state["state"])
        for index, held in state["state"].items():
            kept = self._kept_of(owned[index]) if isinstance(index, int) else None
            if kept is not None:
                changed[index] = {
                    key: change(kept, value)
                    if torch.is_tensor(value) and tuple(value.shape) == found(kept)
                    else value
                    for key, value in held.items()
                }
        return {**state, "state": changed}


def can_be_cut(torch: ModuleType, optimizer: Optimizer) -> bool:
    """Whether everything it keeps for a parameter has the parameter's shape, or is a number."""
    return all(
        value is None
        or isinstance(value, (bool, int, float))
        or (torch.is_tensor(value) and (value.numel() == 1 or value.shape == parameter.shape))
        for parameter, held in optimizer.state.items()
        for value in held.values()
    )
