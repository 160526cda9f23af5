"""Layers that train, evaluate and are saved as if without bias, although they keep the parameter."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import ModuleType
from typing import TYPE_CHECKING

from ...internals.call_slot import CallSlot
from ...internals.modules import (
    compiled_call,
    own_parameters,
    plain_call,
    put_call,
)
from ...seams import Call
from ...training import Training

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module

Attach = Callable[["Tensor", "Tensor"], "Tensor"]
"""(output, bias) -> the output, in whose backward pass the bias gets a gradient of zero."""


class BareLayers:
    """While it is in force, each bias is zero, and so is the optimizers' state for it: so a checkpoint, with
    its usual shapes, gives the same outputs as the model here. ``remove`` restores the values.
    """

    def __init__(self, training: Training, layers: list[Module], attach: Attach) -> None:
        self._training = training
        self._slots = [_Bare(layer, training.torch, attach) for layer in layers]
        self._before = [(tensor, tensor.detach().clone()) for tensor in self._to_be_zero()]
        self._empty()
        for layer, slot in zip(layers, self._slots, strict=True):
            put_call(layer, slot)
        nn, optim = training.torch.nn, training.torch.optim
        self._undo = [
            training.seams.replace(owner, "load_state_dict", self._loading)
            for owner in (nn.Module, optim.Optimizer)
        ]

    @property
    def calls(self) -> int:
        return sum(slot.calls for slot in self._slots)

    def __len__(self) -> int:
        return len(self._slots)

    def remove(self) -> None:
        for undo in self._undo:
            undo()
        with self._training.torch.no_grad():
            for tensor, values in self._before:
                tensor.data.copy_(values)
        self.take_out()

    def take_out(self) -> None:
        """Restore the layers' calls."""
        for slot in self._slots:
            layer = slot.module()
            if layer is not None and compiled_call(layer) is slot:
                put_call(layer, None)

    def _to_be_zero(self) -> Iterator[Tensor]:
        """The biases, and the optimizers' state for each of their entries."""
        layers = [layer for slot in self._slots if (layer := slot.module()) is not None]
        for layer in layers:
            bias = own_parameters(layer)["bias"]
            assert bias is not None
            yield bias
            for optimizer in self._training.optimizers:
                kept = optimizer.state.get(bias, {}).values()
                yield from (t for t in kept if self._training.torch.is_tensor(t) and t.shape == bias.shape)

    def _empty(self) -> None:
        with self._training.torch.no_grad():
            for tensor in self._to_be_zero():
                tensor.data.zero_()

    def _loading(self, original: Call) -> Call:
        """A loaded bias would have an effect outside of hasten, but none here: make it zero again."""

        def load_state_dict(owner: object, *args: object, **kwargs: object) -> object:
            result = original(owner, *args, **kwargs)
            self._empty()
            return result

        return load_state_dict


class _Bare(CallSlot):
    """In the ``compiled_call`` of a layer: the layer without its bias."""

    def __init__(self, layer: Module, torch: ModuleType, attach: Attach) -> None:
        super().__init__(layer)
        self.calls = 0
        self._torch = torch
        self._attach = attach

    def __call__(self, *args: object, **kwargs: object) -> object:
        clone = self.clone()
        if clone is not None:
            return plain_call(clone)(*args, **kwargs)
        layer = self.module()
        assert layer is not None
        bias = own_parameters(layer)["bias"]
        assert bias is not None
        own_parameters(layer)["bias"] = None
        try:
            output = plain_call(layer)(*args, **kwargs)
        finally:
            own_parameters(layer)["bias"] = bias
        if not self._torch.is_grad_enabled():
            return output
        self.calls += 1
        return self._attach(output, bias)
