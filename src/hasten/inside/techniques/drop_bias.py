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

import weakref
from types import ModuleType
from typing import TYPE_CHECKING, Any

from ...records.facts import Facts
from ...records.plan import Settings
from ...records.trial import Proof
from ..seams import Args, Call, Kwargs
from ..training import NotApplicable, Training
from .base import Technique
from .support.bare_layers import Attach, BareLayers
from .support.flow import Watched, form_of_call, layers_with_bias
from .support.left_out_bias import FoundInRoot

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module

_NORMED, _ALL = "normed", "all"
_MOST_FORMS = 8  # of calls: each is watched once


class DropBias(Technique):
    name = "drop_bias"
    summary = "no bias in convolutions and linear layers that a batch norm follows, or in all"
    layer = "application"
    risk = "exact"
    scope = "live"

    def __init__(self) -> None:
        self._watched: dict[int, FoundInRoot] = {}  # by root
        self._attach: Attach | None = None
        self._stopped = ""
        self._bare: list[BareLayers] = []

    @classmethod
    def options(cls, facts: Facts) -> list[Settings]:
        seen = facts.observation
        normed = any(root.batch_norm for root in seen.roots) and seen.bias_before_norm is not False
        return [*([{}] if normed else []), {"which": _ALL}]

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
        for key, found in training.kept.pop(self.name, {}).items():
            if found.can_be_put_in():
                found.calls = 0
                self._watched[key] = found
                found.put_in(self)

        def forward(root: Module, call: Call, args: Args, kwargs: Kwargs) -> object:
            if self._stopped or not (root.training and torch.is_grad_enabled()):
                return call(*args, **kwargs)
            found, form = self._found_in(root), form_of_call(args, kwargs)
            if form in found.forms:
                found.runs = True
                try:
                    return call(*args, **kwargs)
                finally:
                    found.runs = False
            if len(found.forms) == _MOST_FORMS:
                self.stop("the model is called in too many ways")
                return call(*args, **kwargs)
            found.take_out()
            watched = Watched(torch, root)
            output = watched.run(call, args, kwargs)
            found.add(form, watched)
            found.put_in(self)
            return output

        training.forward_wrappers[self.name] = forward
        training.seams.on_undo(self._take_out)

    def _found_in(self, root: Module) -> FoundInRoot:
        found = self._watched.get(id(root))
        if found is None or found.root() is not root:
            found = self._watched[id(root)] = FoundInRoot(weakref.ref(root))
        return found

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
        for found in self._watched.values():
            found.take_out()

    def remove(self, training: Training) -> None:
        training.forward_wrappers.pop(self.name, None)
        while self._bare:
            self._bare.pop().remove()
        self._take_out()
        if self._watched and not self._stopped:
            training.kept[self.name] = self._watched
            self._watched = {}

    def proof(self, training: Training) -> Proof:
        """Counts the calls of layers without their bias whose output then went into the norm. If an output
        ever goes elsewhere, the proof fails.
        """
        everywhere: list[FoundInRoot | BareLayers] = [*self._watched.values(), *self._bare]
        layers, calls = sum(map(len, everywhere)), sum(each.calls for each in everywhere)
        evidence = f"{layers} layers computed without their bias, {calls} times"
        if self._watched and not layers:
            evidence = "no layer with a bias gives its output to a batch norm and nowhere else"
        return Proof(self.name, calls > 0 and not self._stopped, self._stopped or evidence)

    @classmethod
    def by_hand(cls, settings: Settings) -> str:
        return (
            "self.conv = nn.Conv2d(64, 128, 3, padding=1, bias=False)    # self.norm follows directly\n"
            "self.norm = nn.BatchNorm2d(128)"
        )


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
