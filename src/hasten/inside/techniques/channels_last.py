"""Convolution weights and inputs in channels-last layout (NHWC), which fast convolution kernels read.

It helps convolutional networks, whose kernels would otherwise reorder their inputs, most of all under a lower
precision. It hurts if convolutions are few and operators between them want channels first.

``x.view(x.size(0), -1)`` after a convolution would fail, because its elements have a different order. While
the technique is in force, such a view is a copy, as made by ``reshape``; where a script may write through it,
as into weights and gradients, the tensor gets its usual layout back first. Files get the usual layout, too:
what is saved works without hasten. Dropout draws the same masks as without the technique, which costs a copy
of each mask.

Source: https://docs.pytorch.org/tutorials/intermediate/memory_format_tutorial.html
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeAlias

from ...records.facts import Facts
from ...records.plan import Settings
from ...records.trial import Proof
from ..observing.layout import is_channels_last, lies_channels_last, shows_channels_last
from ..seams import Args, Call, Kwargs
from ..training import NotApplicable, Training
from .base import Technique
from .support.logical_draws import LogicalDraws
from .support.memory_format import (
    OptimizerState,
    companions,
    is_part,
    is_shared,
    renewed_views,
    restore_strides,
)
from .support.moved_views import MovedViews

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module
    from torch.optim import Optimizer
    from torch.utils.hooks import RemovableHandle

_Strides: TypeAlias = "tuple[weakref.ref[Tensor], tuple[int, ...]]"

_BY_THE_SCRIPT = "the script has put its weights channels last itself"
_SHARED = (
    "the script holds views of its weights, as by model.state_dict() without a copy, and these would not "
    "follow the model"
)


class ChannelsLast(Technique):
    name = "channels_last"
    summary = "4-d weights and inputs stored channels last"
    layer = "application"
    risk = "exact"
    scope = "live"
    may_come_too_late = True  # a script that has saved its first checkpoint may still hold what it saved
    restarts = True
    _training: Training  # that it is installed in

    def __init__(self) -> None:
        self._converted: list[_Strides] = []  # of parameters, as they were
        self._odd: list[_Strides] = []  # of companions that were laid out otherwise
        self._made = 0  # weights that lay channels last when they were converted
        self._left_alone = 0  # weights that lie in memory which others use, too
        self._hooks: list[RemovableHandle] = []
        self._inputs = self._passes = 0
        self._views: MovedViews | None = None
        self._undo: list[Callable[[], None]] = []
        self._draws: LogicalDraws | None = None

    @classmethod
    def refuse(cls, facts: Facts) -> list[str]:
        if not any(root.convolutions for root in facts.observation.roots):
            return ["the model has no 2-d convolutions"]
        if all(root.channels_last for root in facts.observation.roots if root.convolutions):
            return [_BY_THE_SCRIPT]
        return []

    def install(self, training: Training, settings: Settings) -> None:
        self._training, torch = training, training.torch
        self._take_over()
        known = {id(p) for p, _ in _alive(self._converted)}
        several = {id(p): p for root in training.roots for p in root.parameters()}  # roots may share some
        new = [parameter for parameter in several.values() if id(parameter) not in known]
        if not known and lies_channels_last(new):
            raise NotApplicable(_BY_THE_SCRIPT)
        self._convert_all([parameter for parameter in new if parameter.dim() == 4])

        def last(value: Any) -> object:
            """Not within containers, which the model may fill: convolutions follow their weights."""
            if torch.is_tensor(value) and value.dim() == 4 and value.is_floating_point():
                self._inputs += 1
                return value.to(memory_format=torch.channels_last)
            return value

        self._views = views = MovedViews(training, self._is_ours, self._laid_out)
        convolving = {id(root) for root in training.roots if any(p.dim() == 4 for p in root.parameters())}

        def forward(root: Module, call: Call, args: Args, kwargs: Kwargs) -> object:
            self._passes += id(root) in convolving
            args = tuple(map(last, args))
            kwargs = {name: last(value) for name, value in kwargs.items()}
            before, views.in_forward = views.in_forward, True
            try:
                return call(*args, **kwargs)
            finally:
                views.in_forward = before

        def loaded(optimizer: Optimizer) -> None:
            """A checkpoint brings its own strides."""
            for parameter, _ in _alive(self._converted):
                for tensor in companions(torch, parameter, optimizer.state):
                    tensor.data = tensor.data.to(memory_format=torch.channels_last)

        self._hooks = [o.register_load_state_dict_post_hook(loaded) for o in training.optimizers]
        training.forward_wrappers[self.name] = forward
        training.before_scripting[self.name] = self._is_scripted
        if not any(shows_channels_last(strides, p.shape) for p, strides in _alive(self._converted)):
            self._draws = LogicalDraws(training)
            training.while_scripting[self.name] = self._draws.absent
            self._undo.append(training.seams.replace(torch.Tensor, "__reduce_ex__", _around_reduce))

    def _is_ours(self, tensor: Tensor) -> bool:
        """Whether it is all of a converted weight, of its gradient or of its state."""
        alike = (p for p, _ in _alive(self._converted) if p.shape == tensor.shape)
        return any(one.data_ptr() == tensor.data_ptr() for p in alike for one in self._companions(p))

    def _laid_out(self, tensor: Tensor) -> Tensor:
        """The tensor in the usual layout, from now on: what is written into it must not be lost."""
        place = tensor.untyped_storage().data_ptr()
        for parameter, _ in _alive(self._converted):
            several = self._companions(parameter)
            owner = next((one for one in several if one.untyped_storage().data_ptr() == place), None)
            if owner is None:
                continue
            if owner.shape != tensor.shape:
                raise RuntimeError(
                    "hasten: channels_last cannot give the script this view of a part of a weight; train "
                    "with --without channels_last"
                )
            self._give_back(parameter)
            if all(one is not tensor for one in several):  # such as ``weight.data``
                tensor.data = owner.data
            return tensor
        if tensor.dim() != 4 or tensor.is_inference():
            return tensor.contiguous()
        tensor.data = tensor.contiguous()
        return tensor

    def _companions(self, parameter: Tensor) -> list[Tensor]:
        torch, optimizers = self._training.torch, self._training.optimizers
        state: OptimizerState = next((o.state for o in optimizers if parameter in o.state), {})
        return companions(torch, parameter, state)

    def _give_back(self, parameter: Tensor) -> None:
        """It has the usual layout from now on, and all that belongs to it."""
        for known in self._converted:
            if known[0]() is parameter:
                for one in self._companions(parameter):
                    restore_strides(self._training.torch, one, known[1])
        self._converted = [known for known in self._converted if known[0]() is not parameter]

    def _is_scripted(self, model: Module) -> None:
        """TorchScript's model shares the weights, and flattens without us."""
        for parameter in model.parameters():
            self._give_back(parameter)

    def _take_over(self) -> None:
        """What could not be given back when the technique was in force before."""
        before: ChannelsLast | None = self._training.kept.pop(self.name, None)
        if before is not None:
            self._converted = [known for known in before._converted if known[0]() is not None]
            self._odd, self._made = before._odd, before._made
            before._end()

    def _convert_all(self, weights: list[Tensor]) -> None:
        """But those whose memory others use: these would no longer follow."""
        torch, roots = self._training.torch, self._training.roots
        passing = {id(parameter) for root in roots for parameter in renewed_views(root)}
        with torch.no_grad():
            for weight in weights:
                if self._is_shared(weight) and (id(weight) not in passing or is_part(weight)):
                    self._left_alone += 1
                else:
                    self._convert(weight)
        if weights and not self._converted:
            raise NotApplicable(_SHARED)

    def _is_shared(self, parameter: Tensor) -> bool:
        """Whether others use the memory of the parameter, of its gradient or of its state. Gradients that are
        averaged over ranks lie in a buffer, which torch fills again in each step.
        """
        torch, averaged = self._training.torch, self._training.averages_gradients
        gradient = parameter.grad
        if gradient is not None and not gradient.is_sparse and not averaged and is_part(gradient):
            return True
        return any(is_shared(torch, one) for one in self._companions(parameter) if one is not gradient)

    def _convert(self, parameter: Tensor) -> None:
        """The parameter, its gradient and its optimizer state must agree: fused updates read them side by
        side.
        """
        strides = parameter.stride()
        self._converted.append((weakref.ref(parameter), strides))
        for tensor in self._companions(parameter):
            if tensor.stride() != strides:
                self._odd.append((weakref.ref(tensor), tensor.stride()))
            tensor.data = tensor.data.to(memory_format=self._training.torch.channels_last)
        self._made += is_channels_last(parameter)

    def remove(self, training: Training) -> None:
        """Weights of which the script has taken views meanwhile stay as they are, with what they need."""
        training.forward_wrappers.pop(self.name, None)
        while self._hooks:
            self._hooks.pop().remove()
        torch, stay = training.torch, []
        odd = {id(tensor): strides for tensor, strides in _alive(self._odd)}
        with torch.no_grad():
            for parameter, strides in _alive(self._converted):
                if is_channels_last(parameter) and self._is_shared(parameter):
                    stay.append((weakref.ref(parameter), strides))
                    continue
                for tensor in self._companions(parameter):
                    restore_strides(torch, tensor, odd.get(id(tensor), strides))
        self._converted = stay
        if stay:
            training.kept[self.name] = self
        else:
            self._end()

    def left_on(self) -> str:
        return _SHARED if self._converted else ""

    def _end(self) -> None:
        self._training.before_scripting.pop(self.name, None)
        self._training.while_scripting.pop(self.name, None)
        while self._undo:
            self._undo.pop()()
        if self._views is not None:
            self._views.remove()
        if self._draws is not None:
            self._draws.remove()
            self._draws = None

    def proof(self, training: Training) -> Proof:
        """Counts the weights that are channels last now, and passes of models with such weights: convolutions
        follow their weights. There need not be inputs to convert: a model may put pictures into a batch
        itself. If the script is done with its models, weights count as they were before.
        """
        weights: list[Tensor] = [p for root in training.roots for p in root.parameters() if p.dim() == 4]
        last = sum(map(is_channels_last, weights)) if training.roots else self._made
        evidence = f"{last} weights and {self._inputs} inputs channels last; passes: {self._passes}"
        if self._left_alone:
            evidence += f", {self._left_alone} weights left alone whose memory the script uses elsewhere, too"
        if self._views is not None and self._views.made:
            evidence += f", {self._views.made} views were copied"
        if self._draws is not None and self._draws.drawn:
            evidence += f", {self._draws.drawn} random operators drew as in the usual order"
        return Proof(self.name, last > 0 and self._passes > 0, evidence)

    @classmethod
    def by_hand(cls, settings: Settings) -> str:
        return (
            "model = model.to(memory_format=torch.channels_last)      # before the optimizer is made\n"
            "inputs = inputs.to(memory_format=torch.channels_last)    # every batch\n"
            "hidden = hidden.reshape(hidden.size(0), -1)              # in place of .view"
        )


def _around_reduce(original: Call) -> Call:
    """Of what is pickled, and saved with it: a model that a file brings back has the usual layout."""

    def __reduce_ex__(tensor: Tensor, protocol: int) -> object:
        strided = str(tensor.layout) == "torch.strided"
        if strided and tensor.dim() == 4 and shows_channels_last(tensor.stride(), tensor.shape):
            tensor = tensor.detach().contiguous().requires_grad_(tensor.requires_grad)
        return original(tensor, protocol)

    return __reduce_ex__


def _alive(several: list[_Strides]) -> Iterator[tuple[Tensor, tuple[int, ...]]]:
    """Those tensors that the script still holds."""
    return ((tensor, strides) for ref, strides in several if (tensor := ref()) is not None)
