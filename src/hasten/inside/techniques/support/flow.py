"""Finds layers whose output goes into a batch norm, and nowhere else, by watching one forward pass."""

from __future__ import annotations

import gc
import weakref
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager
from types import ModuleType
from typing import TYPE_CHECKING

from ...internals.modules import compiled_call, has_hooks, own_parameters, part
from ...seams import Args, Call, Kwargs
from ...structures import tensors_of

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module

Pair = tuple["Module", "Module"]
"""(a convolution or linear layer, the only batch norm that reads its output)."""

_LAYERS = (
    "Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d", "Linear",
)  # fmt: skip
_NORMS = ("BatchNorm1d", "BatchNorm2d", "BatchNorm3d")


class Watched:
    """One forward pass, watched. ``run`` makes it; afterwards ``pairs`` holds what was found.

    The norm's input must be the very tensor that the layer returned, not changed in place. No other operator
    may read its memory, it may not be part of the root's output, and nothing may keep a reference to it.
    """

    def __init__(self, torch: ModuleType, root: Module) -> None:
        self._torch = torch
        self._layers = layers_with_bias(torch, root)
        self._norms = [m for m in root.modules() if _is_one_of(torch, m, _NORMS)]
        self._held: list[Tensor] = []  # outputs of layers: kept alive, so that no memory is reused
        self._made: dict[int, int] = {}  # address of an output's memory: its place in _held
        self._by: list[Module] = []  # the layer that made it
        self._versions: list[int] = []
        self._readers: list[list[Module | None]] = []  # norms, and None for other operators
        self._in_norm: int | None = None  # the place of the running norm's input
        self._calls: Counter[int] = Counter()  # by module
        self.pairs: list[Pair] = []

    def run(self, call: Call, args: Args, kwargs: Kwargs) -> object:
        """Run ``call(*args, **kwargs)``; its errors are the script's."""
        handles = [layer.register_forward_hook(self._layer_ended) for layer in self._layers]
        handles += [norm.register_forward_pre_hook(self._norm_begins) for norm in self._norms]
        handles += [norm.register_forward_hook(self._norm_ended) for norm in self._norms]
        try:
            with _reading(self._read):
                output = call(*args, **kwargs)
        finally:
            for handle in handles:
                handle.remove()
        self.pairs = self._found(output)
        return output

    def agrees(self, layer: Module | None, norm: Module | None) -> bool:
        """Whether they are a pair in this pass, or the layer has no part in it. None is one that is gone."""
        if layer is None or norm is None:
            return False
        return not self._calls[id(layer)] or any(one is layer and other is norm for one, other in self.pairs)

    def _layer_ended(self, layer: Module, args: Args, output: Tensor) -> None:
        self._calls[id(layer)] += 1
        self._made[_address(output)] = len(self._held)
        self._held.append(output)
        self._by.append(layer)
        self._versions.append(output._version)
        self._readers.append([])

    def _norm_begins(self, norm: Module, args: tuple[Tensor, ...]) -> None:
        self._calls[id(norm)] += 1
        place = self._made.get(_address(args[0])) if args else None
        if place is None:
            return
        unchanged = args[0] is self._held[place] and args[0]._version == self._versions[place]
        self._readers[place].append(norm if unchanged and norm.training else None)
        self._in_norm = place

    def _norm_ended(self, norm: Module, args: Args, output: object) -> None:
        self._in_norm = None

    def _read(self, tensors: list[Tensor]) -> None:
        """An operator reads or writes these."""
        for tensor in tensors:
            place = self._made.get(_address(tensor))
            if place is not None and place != self._in_norm:
                self._readers[place].append(None)

    def _found(self, output: object) -> list[Pair]:
        self._read(tensors_of(self._torch, output))
        kept = self._kept_elsewhere()
        pairs = [
            (layer, norm)
            for place, (layer, readers) in enumerate(zip(self._by, self._readers, strict=True))
            if len(readers) == 1
            and (norm := readers[0]) is not None
            and place not in kept
            and self._calls[id(layer)] == self._calls[id(norm)] == 1
        ]
        self._held.clear()
        return pairs

    def _kept_elsewhere(self) -> set[int]:
        """The places of outputs that something else in Python still references."""
        places = {id(tensor): place for place, tensor in enumerate(self._held)}
        found: set[int] = set()
        held = tuple(self._held)  # from Python 3.13 on, the call's own arguments are reported, too
        for referrer in gc.get_referrers(*held) if held else ():
            if referrer is not self._held and referrer is not held:
                found |= {places[id(part)] for part in gc.get_referents(referrer) if id(part) in places}
        return found


class Way:
    """The way through the parts of ``root`` to one of them. A script may put another in its place."""

    def __init__(self, root: Module, to: Module) -> None:
        name = next((name for name, module in root.named_modules() if module is to), "")
        self._names = name.split(".") if name else []
        self._root, self._to = weakref.ref(root), weakref.ref(to)

    def end(self) -> Module | None:
        """The module it was made for; None if that is no longer there."""
        at, to = self._root(), self._to()
        for name in self._names:
            at = part(at, name) if at is not None else None
        return at if at is to else None


def form_of_call(args: Args, kwargs: Kwargs) -> object:
    """Equal for calls with which a model may be expected to compute the same from other numbers."""
    return tuple(map(_form, args)), tuple((name, _form(kwargs[name])) for name in sorted(kwargs))


def _form(value: object) -> object:
    return value if value is None or isinstance(value, (bool, str)) else type(value)


def layers_with_bias(torch: ModuleType, root: Module) -> list[Module]:
    """Convolutions and linear layers with a bias that nothing else reads."""
    return [m for m in root.modules() if _is_one_of(torch, m, _LAYERS) and _has_free_bias(m)]


def _is_one_of(torch: ModuleType, module: Module, names: tuple[str, ...]) -> bool:
    """Exactly one of these classes: one of the script's subclasses may compute something else."""
    return any(type(module) is getattr(torch.nn, name) for name in names)


def _has_free_bias(layer: Module) -> bool:
    """Whether it has its own bias, trained with its weight, that no hook of the script can see."""
    parameters = own_parameters(layer)  # a parametrized layer's have other names
    weight, bias = parameters.get("weight"), parameters.get("bias")
    return (
        weight is not None
        and bias is not None
        and weight.requires_grad
        and bias.requires_grad
        and compiled_call(layer) is None
        and not has_hooks(layer)
    )


def _reading(read: Callable[[list[Tensor]], None]) -> AbstractContextManager[object]:
    """A context in which ``read`` gets the tensors that each operator takes."""
    from ...internals.dispatch import TorchDispatchMode, tree_leaves

    class Reading(TorchDispatchMode):  # type: ignore[no-untyped-call]
        def __torch_dispatch__(
            self, func: Call, types: object, args: Args = (), kwargs: Kwargs | None = None
        ) -> object:
            read([leaf for leaf in tree_leaves((args, kwargs)) if hasattr(leaf, "untyped_storage")])
            return func(*args, **(kwargs or {}))

    reading: AbstractContextManager[object] = Reading()  # type: ignore[no-untyped-call]
    return reading


def _address(tensor: Tensor) -> int:
    """The address of a tensor's memory; a unique number if there is none."""
    try:
        return int(tensor.untyped_storage().data_ptr()) or -id(tensor)
    except (AttributeError, NotImplementedError, RuntimeError):
        return -id(tensor)
