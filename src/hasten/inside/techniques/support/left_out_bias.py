"""Layers that are computed without their bias while the batch norm that alone reads their output trains."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

from ...internals.call_slot import CallSlot
from ...internals.modules import compiled_call, has_forward_hooks, own_parameters, plain_call, put_call
from .flow import Watched, Way

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module

    from ..drop_bias import DropBias

Refs = tuple["weakref.ref[Module]", "weakref.ref[Module]"]
"""A layer, and the batch norm that alone reads its output."""


class FoundInRoot:
    """What was found in the passes of a root that were watched: one of each form in which it is called."""

    def __init__(self, root: weakref.ref[Module]) -> None:
        self.root = root
        self.runs = False  # a pass of the whole root, of a known form
        self.calls = 0
        self.forms: set[object] = set()
        self.pairs: list[Refs] = []
        self._slots: list[_Layer] = []

    def __len__(self) -> int:
        return len(self.pairs)

    def add(self, form: object, watched: Watched) -> None:
        """Keep the pairs that are pairs in all forms that call the layer."""
        if not self.forms:
            self.pairs = [(weakref.ref(layer), weakref.ref(norm)) for layer, norm in watched.pairs]
        else:
            self.pairs = [(a, b) for a, b in self.pairs if watched.agrees(a(), b())]
        self.forms.add(form)

    def can_be_put_in(self) -> bool:
        """Whether all modules are alive, and nothing stands in for their calls."""
        refs = (ref for pair in self.pairs for ref in pair)
        return self.root() is not None and all(
            (module := ref()) is not None and compiled_call(module) is None for ref in refs
        )

    def put_in(self, technique: DropBias) -> None:
        for layer, norm in self.pairs:
            slot = _Layer(_alive(layer), norm, self, technique)
            put_call(_alive(layer), slot)
            put_call(_alive(norm), _Norm(_alive(norm), slot))
            self._slots.append(slot)

    def take_out(self) -> None:
        for slot in self._slots:
            for ref in (slot.module, slot.norm):
                if (module := ref()) is not None and isinstance(compiled_call(module), (_Layer, _Norm)):
                    put_call(module, None)
        self._slots.clear()


class _Layer(CallSlot):
    """In the ``compiled_call`` of a layer: the layer without its bias while its norm trains."""

    def __init__(
        self,
        layer: Module,
        norm: weakref.ref[Module],
        found: FoundInRoot,
        technique: DropBias,
    ) -> None:
        super().__init__(layer)
        self.norm, self.found = norm, found
        self._to_norm = Way(_alive(found.root), _alive(norm))
        self.pending: Tensor | None = None  # an output on its way to the norm
        self._technique = technique

    def __call__(self, *args: object, **kwargs: object) -> object:
        clone = self.clone()
        if clone is not None:
            return plain_call(clone)(*args, **kwargs)
        layer, norm = _alive(self.module), self._to_norm.end()
        bias = own_parameters(layer).get("bias")
        if self.pending is not None:
            self.pending = None
            self._technique.stop("the output of a layer did not go into its batch norm in every pass")
        if norm is None:
            self._technique.stop("a batch norm is no longer in its place in the model")
        if (
            self._technique.stopped
            or not self.found.runs
            or norm is None
            or not norm.training
            or bias is None
            or has_forward_hooks(layer)
            or has_forward_hooks(norm)
        ):
            return plain_call(layer)(*args, **kwargs)
        own_parameters(layer)["bias"] = None
        try:
            output = plain_call(layer)(*args, **kwargs)
        finally:
            own_parameters(layer)["bias"] = bias
        self.pending = self._technique.attach(output, bias)
        return self.pending


class _Norm(CallSlot):
    """In the ``compiled_call`` of a norm: its running mean gets what the bias would have added."""

    def __init__(self, norm: Module, slot: _Layer) -> None:
        super().__init__(norm)
        self._slot = slot

    def __call__(self, *args: object, **kwargs: object) -> object:
        clone = self.clone()
        if clone is not None:
            return plain_call(clone)(*args, **kwargs)
        norm: Any = _alive(self.module)  # a batch norm, of whose attributes Module knows nothing
        slot = self._slot
        output = plain_call(norm)(*args, **kwargs)
        if slot.pending is not None and args and args[0] is slot.pending:
            slot.pending = None
            slot.found.calls += 1
            if norm.running_mean is not None:
                bias = own_parameters(_alive(slot.module))["bias"]
                assert bias is not None
                bias = bias.detach()
                if norm.momentum is None:
                    bias, share = bias / norm.num_batches_tracked, 1.0
                else:
                    share = norm.momentum
                # past the version counter: the norm's backward pass saved this buffer and does not read it
                norm.running_mean.data.add_(bias, alpha=share)
        return output


def _alive(ref: weakref.ref[Module]) -> Module:
    module = ref()
    assert module is not None
    return module
