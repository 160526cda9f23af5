"""One step from a given state on a given batch: its gradient, its update, and the statistics in buffers.

One worker, the reference, saves its state before a step, and the step's results after it. Another loads that
state, takes the same step and compares. Its optimizer gets the reference's gradient instead of its own, which
is recorded first: so the update shows what the optimizer does, whatever rounding the gradient has. (Adam
turns a gradient of pure rounding noise into an update of full size.) If a plan lowers the precision of
evaluations, the worker also evaluates the step's batch in both precisions.
"""

from __future__ import annotations

import os
import shutil
import weakref
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import TYPE_CHECKING, Any

from ...records import messages
from ..process import own_files
from ..seams import Args, Call, Kwargs
from ..training import Training
from .tensor_sums import change, rounding, sums_of, total
from .training_state import Tensors, buffers_of, dense, parameters_of, take_up, taken_down

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module
    from torch.optim import Optimizer
    from torch.utils.hooks import RemovableHandle

MODEL = "model"  # prefix for names in a model's state dict
_MOST_COUNTS = 10  # of differing counts that are named
_SPARE = 2  # times a file's size must be free on its disk


class Numerics:
    """Answers the coordinator's requests about single steps, between two steps."""

    def __init__(self, training: Training) -> None:
        self._training = training
        self._start: Tensors | None = None  # parameters and buffers at the start of the last checked step
        self._own: Tensors = {}  # our gradients, if the reference's replaced them
        self._hooks: list[RemovableHandle] = []
        self.on_load: Callable[[], None] = lambda: None
        self._given: weakref.WeakKeyDictionary[Module, tuple[Args, Kwargs]] = weakref.WeakKeyDictionary()
        training.forward_wrappers["numerics"] = self._forward

    def answer(self, request: messages.StepRequest) -> messages.Message:
        """Answer a request about single steps; with ``Failed`` and the reason if they cannot be compared."""
        try:
            match request:
                case messages.SaveState():
                    return self._save(request)
                case messages.RecordStep():
                    return self._record(request)
                case messages.LoadState():
                    return self._load(request)
                case messages.CompareStep():
                    return self._compare(request)
                case messages.TellShapes():
                    return self._shapes()
        except (KeyError, ValueError, OSError, RuntimeError) as error:  # the two do not hold the same tensors
            return messages.Failed(f"{type(error).__name__}: {error}")

    def _shapes(self) -> messages.Shapes:
        roots, optimizers = self._training.roots, self._training.optimizers
        shapes = {
            f"{MODEL} {number}: {name}": tuple(value.shape)
            for number, root in enumerate(roots)
            for name, value in root.state_dict().items()
            if self._torch.is_tensor(value)
        }
        shapes |= {
            f"optimizer {number}: {name} of parameter {index}": tuple(value.shape)
            for number, optimizer in enumerate(optimizers)
            for index, kept in optimizer.state_dict()["state"].items()
            for name, value in kept.items()
            if self._torch.is_tensor(value)
        }
        return messages.Shapes(shapes)

    # ---- the reference
    def _save(self, request: messages.SaveState) -> messages.Written | messages.Failed:
        state = taken_down(self._training)
        written = self._write(state, request.state)
        self._begin()
        return written

    def _record(self, request: messages.RecordStep) -> messages.Written | messages.Failed:
        parameters = parameters_of(self._training)
        stepped = self._training.optimizers[request.optimizer] if request.optimizer >= 0 else None
        ours = {id(p) for group in stepped.param_groups for p in group["params"]} if stepped else None
        gradients = {
            name: gradient
            for name, parameter in parameters.items()
            if (ours is None or id(parameter) in ours) and (gradient := dense(parameter.grad)) is not None
        }
        changes = self._changes() if self._start is not None else {}
        return self._write({"gradient": gradients, **changes}, request.made)

    def _write(self, content: object, path: str) -> messages.Written | messages.Failed:
        needed = sum(tensor.numel() * tensor.element_size() for tensor in _tensors(self._torch, content))
        try:
            free = shutil.disk_usage(os.path.dirname(path)).free
            if _SPARE * needed > free:
                return messages.Failed(f"{needed / 1e9:.1f} GB of state do not fit where temporary files go")
            self._torch.save(content, path + ".new")
            os.replace(path + ".new", path)  # another worker may still have the old one mapped
        except (OSError, RuntimeError) as error:  # torch raises RuntimeError for a full disk
            return messages.Failed(f"state could not be written to a temporary file: {error}")
        return messages.Written()

    # ---- the others
    def _load(self, request: messages.LoadState) -> messages.Departed:
        state, made = self._read(request.state), self._read(request.made)
        departed = self._departed(state)
        take_up(self._training, state)
        self._begin()
        self.on_load()
        self._hand_over(made["gradient"])
        return departed

    def _hand_over(self, gradients: Tensors) -> None:
        """Replace them in each optimizer's next step, after everything else that changes gradients."""
        names = {id(parameter): name for name, parameter in parameters_of(self._training).items()}

        def handed(optimizer: Optimizer) -> None:
            scale = getattr(optimizer, "grad_scale", None)
            for parameter in (p for group in optimizer.param_groups for p in group["params"]):
                name = names.get(id(parameter), "")
                if name in gradients and name not in self._own and (own := dense(parameter.grad)) is not None:
                    self._own[name] = own.clone() if scale is None else own / scale
                    own.copy_(gradients[name] if scale is None else gradients[name].to(own.device) * scale)

        def steps(optimizer: Optimizer, args: Args, kwargs: Kwargs) -> None:  # args[0] is the optimizer
            if not self._own and all(value is None for value in (*args[1:], *kwargs.values())):
                handed(optimizer)  # with a closure, gradients are computed during the step

        self._hooks = [o.register_step_pre_hook(steps) for o in self._training.optimizers]
        self._training.before_updates["numerics"] = handed

    def _departed(self, state: Mapping[str, Any]) -> messages.Departed:
        """What has drifted apart since the last checked step: the changes of parameters and buffers, the
        values of the optimizer's state. Within an update nothing is compared: a line search puts back its
        own parameters after each step, and counts by them.
        """
        if self._training.steps_within_updates:
            return messages.Departed({}, ())
        torch, start = self._torch, self._start
        parameters, buffers = parameters_of(self._training), buffers_of(self._training)
        counts = [
            name
            for name, buffer in buffers.items()
            if not buffer.is_floating_point() and not _same(torch, buffer, state["buffers"][name])
        ]
        since: dict[str, list[messages.Sums]] = {}
        for kind, tensors in (("parameters", parameters), ("buffers", buffers)):
            if start is not None:
                since[kind] = [
                    sums_of(torch, change(tensor, start[name]), change(state[kind][name], start[name]))
                    for name, tensor in tensors.items()
                    if tensor.is_floating_point() and name in start  # not of a root that appeared since
                ]
        for optimizer, kept in zip(self._training.optimizers, state["optimizers"], strict=True):
            for name, parameter in parameters.items():
                mine, theirs = optimizer.state.get(parameter) or {}, kept.get(name) or {}
                for key in sorted({*mine, *theirs}):
                    a, b = (_as_tensor(self._torch, one.get(key)) for one in (mine, theirs))
                    if key != "step" and _is_real(torch, a) and _is_real(torch, b):
                        since.setdefault(key, []).append(sums_of(torch, a, b))
                    elif not _same(torch, a, b):
                        counts.append(f"{key} of {name}")
        departed = {kind: total(sums) for kind, sums in since.items()}
        return messages.Departed(departed, tuple(counts[:_MOST_COUNTS]))

    def _compare(self, request: messages.CompareStep) -> messages.Compared:
        made, parameters = self._read(request.made), parameters_of(self._training)
        while self._hooks:
            self._hooks.pop().remove()
        self._training.before_updates.pop("numerics", None)
        gradients = {
            name: sums_of(self._torch, self._own.get(name, dense(parameters[name].grad)), gradient)
            for name, gradient in made["gradient"].items()
        }
        handed, self._own = self._own, {}
        updates: dict[str, messages.Sums] = {}
        buffers: dict[str, messages.Sums] = {}
        if handed and "update" in made:  # after a step on its own gradient, an update might be rounding
            ours = self._changes()
            left = made["gradient"].keys() - handed.keys()
            updates = {
                name: sums_of(
                    self._torch, ours["update"][name], update, rounding(self._torch, parameters[name])
                )
                for name, update in made["update"].items()
                if name not in left
            }
        if "buffers" in made and self._start is not None:
            ours = self._changes()
            buffers = {
                name: sums_of(self._torch, ours["buffers"][name], reference)
                for name, reference in made["buffers"].items()
            }
        return messages.Compared(gradients, updates, buffers, self._evaluation())

    # ---- an evaluation
    def _forward(self, root: Module, call: Call, args: Args, kwargs: Kwargs) -> object:
        if self._training.evaluation_departures and self._torch.is_grad_enabled():
            self._given[root] = args, kwargs
        return call(*args, **kwargs)

    def _evaluation(self) -> float | None:
        """The largest difference in a model's evaluation of its last batch; None if none is lowered."""
        wrappers = self._training.forward_wrappers
        others = dict(wrappers)
        wrappers.clear()  # a model inside a model must not count as evaluated by the script
        try:
            found = [
                departure(root, *given)
                for root, given in list(self._given.items())
                for departure in self._training.evaluation_departures.values()
            ]
        finally:
            wrappers.update(others)
            self._given.clear()
        return max((one for one in found if one is not None), default=None)

    # ---- both
    @property
    def _torch(self) -> ModuleType:
        return self._training.torch

    def _read(self, path: str) -> Any:
        return own_files.load(self._torch, path, map_location="cpu", mmap=True)

    def _begin(self) -> None:
        """Note the state from which the coming step starts."""
        values = {**parameters_of(self._training), **buffers_of(self._training)}
        self._start = {name: value.detach().clone() for name, value in values.items()}

    def _changes(self) -> dict[str, Tensors]:
        """How much parameters and buffers have changed since the step began."""
        start = self._start
        assert start is not None
        return {
            kind: {
                name: change(tensor, start[name])
                for name, tensor in tensors.items()
                if tensor.is_floating_point() and name in start  # not of a root that appeared since
            }
            for kind, tensors in (
                ("update", parameters_of(self._training)),
                ("buffers", buffers_of(self._training)),
            )
        }


def _as_tensor(torch: ModuleType, value: Any) -> Any:
    """LBFGS keeps the loss and the length of its step as plain numbers."""
    return torch.tensor([value]) if isinstance(value, float) else value


def _is_real(torch: ModuleType, value: Any) -> bool:
    return torch.is_tensor(value) and bool(value.is_floating_point())


def _same(torch: ModuleType, a: Any, b: Any) -> bool:
    if torch.is_tensor(a) and torch.is_tensor(b):
        return bool(a.shape == b.shape and torch.equal(a.detach().cpu(), b.detach().cpu()))
    if torch.is_tensor(a) or torch.is_tensor(b):
        return False
    return isinstance(a, (list, tuple, dict)) or bool(a == b)  # LBFGS keeps lists of tensors


def _tensors(torch: ModuleType, content: Any) -> list[Tensor]:
    if isinstance(content, dict):
        content = list(content.values())
    if isinstance(content, (list, tuple)):
        return [tensor for part in content for tensor in _tensors(torch, part)]
    return [content] if torch.is_tensor(content) else []
