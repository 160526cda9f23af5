"""No bias where a batch norm follows. The norm subtracts the mean of its input, the bias with it, so in
training the bias does not change the output, and its gradient is nothing but rounding. It is left out of the
layer, and its gradient is zero. Its part of the norm's running mean is added there, so evaluation and
checkpoints are unchanged, the bias itself included. Such layers are found by watching one real forward pass:
the layer's output must be the norm's input, and nothing else may read it. The optimizer still steps (and
decays) the bias. Only rounding differs; with Adam that includes the bias itself, which Adam otherwise moves
by rounding noise.

With ``which`` ``all``, which is of risk ``training``, no convolution or linear layer has a bias: they are
zero and stay so, in checkpoints too.

It helps where adding the bias and summing its gradient over large feature maps costs something: convolutions
with few channels and many pixels. It costs a little Python for each such layer, so small feature maps can
become slower. Models whose authors already wrote bias=False have nothing to drop.

Source: https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html (disable bias for convolutions
directly followed by a batch norm)
"""

from __future__ import annotations

import sys
import weakref
from types import ModuleType
from typing import TYPE_CHECKING, Any

from ...records.facts import Facts
from ...records.plan import Settings
from ...records.trial import Proof
from ..internals.call_slot import CallSlot
from ..internals.modules import compiled_call, has_forward_hooks, own_parameters, plain_call, put_call
from ..seams import Args, Call, Kwargs
from ..training import NotApplicable, Training
from .base import Technique
from .support.bare_layers import Attach, BareLayers
from .support.flow import Watched, Way, layers_with_bias

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module

_NORMED, _ALL = "normed", "all"
Refs = tuple["weakref.ref[Module]", "weakref.ref[Module]"]
"""A layer, and the batch norm that alone reads its output."""


class DropBias(Technique):
    name = "drop_bias"
    summary = "no bias in convolutions and linear layers that a batch norm follows, or in all"
    layer = "application"
    risk = "exact"
    scope = "live"

    def __init__(self) -> None:
        self._watched: dict[int, tuple[weakref.ref[Module], list[Refs]]] = {}  # by root: what was found
        self._slots: list[_Layer] = []
        self._attach: Attach | None = None
        self._stopped = ""
        self._bare: list[BareLayers] = []

    @classmethod
    def options(cls, facts: Facts) -> list[Settings]:
        normed: list[Settings] = [{}] if any(root.batch_norm for root in facts.observation.roots) else []
        return [*normed, {"which": _ALL}]

    @classmethod
    def changes_training(cls, settings: Settings) -> bool:
        return settings.get("which") == _ALL

    @classmethod
    def check(cls, settings: Settings) -> None:
        if set(settings) - {"which"} or settings.get("which", _NORMED) not in (_NORMED, _ALL):
            raise ValueError(f"drop_bias takes which, {_NORMED} or {_ALL}")

    @classmethod
    def refuse(cls, facts: Facts) -> list[str]:
        roots = facts.observation.roots
        if "compile" in facts.observation.uses or any(root.compiled for root in roots):
            return ["the script compiles its model, and layers cannot be stepped into"]
        return []

    def install(self, training: Training, settings: Settings) -> None:
        torch = training.torch
        for root in training.roots:
            if any(isinstance(module, torch.nn.DataParallel) for module in root.modules()):
                raise NotApplicable("DataParallel copies the model at every step")
        self._attach = _with_zero_gradient(torch)
        if self.changes_training(settings):
            trained = [root for root in training.roots if training.is_trained(root)]
            if training.roots and not trained:
                raise NotApplicable("the script trains none of its models, and they are to stay as they are")
            self._bare = [BareLayers(training, layers_with_bias(torch, r), self._attach) for r in trained]
            training.seams.on_undo(self._take_out)
            return
        for key, (ref, pairs) in training.kept.pop(self.name, {}).items():
            if ref() is not None and all(_are_free(pair) for pair in pairs):
                self._take_up(key, ref, pairs)

        def forward(root: Module, call: Call, args: Args, kwargs: Kwargs) -> object:
            known = id(root) in self._watched and self._watched[id(root)][0]() is root
            if known or not (root.training and torch.is_grad_enabled()):
                return call(*args, **kwargs)
            watched = Watched(torch, root)
            output = watched.run(call, args, kwargs)
            pairs = [(weakref.ref(layer), weakref.ref(norm)) for layer, norm in watched.pairs]
            self._take_up(id(root), weakref.ref(root), pairs)
            return output

        training.forward_wrappers[self.name] = forward
        training.seams.on_undo(self._take_out)

    def _take_up(self, key: int, root: weakref.ref[Module], pairs: list[Refs]) -> None:
        self._watched[key] = (root, pairs)
        for layer, norm in pairs:
            slot = _Layer(_alive(layer), norm, Way(_alive(root), _alive(norm)), self)
            put_call(_alive(layer), slot)
            put_call(_alive(norm), _Norm(_alive(norm), slot))
            self._slots.append(slot)

    def attach(self, output: Tensor, bias: Tensor) -> Tensor:
        assert self._attach is not None
        return self._attach(output, bias)

    def stop(self, reason: str) -> None:
        """From the next pass on, layers use their bias again."""
        self._stopped = reason

    @property
    def stopped(self) -> bool:
        return bool(self._stopped)

    def _take_out(self) -> None:
        for layers in self._bare:
            layers.take_out()
        for slot in self._slots:
            for ref in (slot.module, slot.norm):
                if (module := ref()) is not None and isinstance(compiled_call(module), (_Layer, _Norm)):
                    put_call(module, None)
        self._slots.clear()

    def remove(self, training: Training) -> None:
        training.forward_wrappers.pop(self.name, None)
        while self._bare:
            self._bare.pop().remove()
        self._take_out()
        if self._watched and not self._stopped:
            training.kept[self.name] = self._watched

    def proof(self, training: Training) -> Proof:
        """Counts the calls of layers without their bias whose output then went into the norm. If an output
        ever goes elsewhere, the proof fails.
        """
        layers = len(self._slots) + sum(len(bare) for bare in self._bare)
        calls = sum(slot.calls for slot in self._slots) + sum(bare.calls for bare in self._bare)
        evidence = f"{layers} layers computed without their bias, {calls} times"
        if self._watched and not self._slots:
            evidence = "no layer with a bias gives its output to a batch norm and nowhere else"
        return Proof(self.name, calls > 0 and not self._stopped, self._stopped or evidence)

    @classmethod
    def by_hand(cls, settings: Settings) -> str:
        return (
            "self.conv = nn.Conv2d(64, 128, 3, padding=1, bias=False)    # self.norm follows directly\n"
            "self.norm = nn.BatchNorm2d(128)"
        )


class _Layer(CallSlot):
    """In the ``compiled_call`` of a layer: the layer without its bias while its norm trains."""

    def __init__(self, layer: Module, norm: weakref.ref[Module], way: Way, technique: DropBias) -> None:
        super().__init__(layer)
        self.norm = norm
        self._way = way  # to the norm
        self.pending: Tensor | None = None  # an output on its way to the norm
        self.calls = 0
        self._technique = technique

    def __call__(self, *args: object, **kwargs: object) -> object:
        clone = None if self.is_compiled() else self.clone(sys._getframe(1))
        if clone is not None:
            return plain_call(clone)(*args, **kwargs)
        layer, norm = _alive(self.module), self._way.end()
        bias = own_parameters(layer).get("bias")
        if self.pending is not None:
            self.pending = None
            self._technique.stop("the output of a layer did not go into its batch norm in every pass")
        if norm is None:
            self._technique.stop("a batch norm is no longer in its place in the model")
        if (
            self._technique.stopped
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
        clone = None if self.is_compiled() else self.clone(sys._getframe(1))
        if clone is not None:
            return plain_call(clone)(*args, **kwargs)
        norm: Any = _alive(self.module)  # a batch norm, of whose attributes Module knows nothing
        slot = self._slot
        output = plain_call(norm)(*args, **kwargs)
        if slot.pending is not None and args and args[0] is slot.pending:
            slot.pending = None
            slot.calls += 1
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


def _are_free(pair: Refs) -> bool:
    """Whether both are alive, and nothing stands in for their calls."""
    return all((module := ref()) is not None and compiled_call(module) is None for ref in pair)


def _with_zero_gradient(torch: ModuleType) -> Attach:
    """A function that returns its first argument, and in the backward pass gives its second a gradient of
    zero, so that the script finds a gradient where it expects one.
    """

    function: Any = torch.autograd.Function

    class ZeroGradient(function):  # type: ignore[misc]
        generate_vmap_rule = True  # within torch.func's transforms, too

        @staticmethod
        def forward(output: Tensor, bias: Tensor) -> Tensor:
            return output.view_as(output)

        @staticmethod
        def setup_context(context: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
            bias = inputs[1]
            context.of_bias = bias.shape, bias.dtype, bias.device

        @staticmethod
        def backward(context: Any, gradient: Tensor) -> tuple[Tensor, Tensor]:
            shape, dtype, device = context.of_bias
            return gradient, torch.zeros(shape, dtype=dtype, device=device)

        @staticmethod
        def jvp(context: Any, of_output: Tensor, of_bias: object) -> Tensor:
            return of_output.view_as(of_output)

    apply: Attach = ZeroGradient.apply
    return apply
