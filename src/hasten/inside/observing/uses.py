"""What the script already does itself: techniques must not do it twice."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ...records.observation import STEPS_IN_BACKWARD
from ..internals import compiler, lazy_dynamo
from ..process.finalizers import tracked_objects, with_finalizers
from ..seams import Call
from ..training import Training

if TYPE_CHECKING:
    from torch.amp import GradScaler
    from torch.amp import autocast as Autocast
    from torch.nn import Module

RECORDS_EVALUATIONS = "gradients in eval mode"  # passes that may be an evaluation's record a graph
LOWERS_EVALUATIONS = "autocast without gradients"
EVALUATES_IN_TRAINING_MODE = "training mode without gradients"
DIFFERENTIATES_GRADIENTS = "create_graph=True"
MAKES_LOADERS = "DataLoader"  # one was made, if not read
IMPORTS_COMPILER = lazy_dynamo.NAME  # before an optimizer does
FINALIZES = "finalizers"  # of objects that were made before torch was imported


class Uses:
    """Names of what the script uses: "autocast", "GradScaler", "compile", "channels_last" and similar.

    ``in_backward``: whether a backward pass runs. What a checkpoint computes again there enters autocast anew
    where it was on, whoever had switched it on.
    """

    def __init__(self, in_backward: Callable[[], bool] = lambda: False) -> None:
        self._in_backward = in_backward
        self._names: dict[str, None] = {}
        self._autocast: dict[str, None] = {}  # types that training passes are lowered to
        self._lowers_evaluations = False
        self._compiled: weakref.WeakSet[Module] = weakref.WeakSet()
        self._compiles_functions = False
        self._compiled_before_us: bool | None = None  # functions: None if we compiled nothing
        self._compiles = False  # the training, when it was last looked at
        self._training: Training | None = None

    def look(self) -> None:
        """Note what can only be seen while the trained modules are alive."""
        if self._training is not None and self._training.roots:
            self._compiles = self._compiles_root(self._training.roots)

    def autocast(self) -> tuple[str, ...]:
        """The types to which the script itself lowers passes that record gradients."""
        return tuple(self._autocast)

    def names(self, evaluations: bool = False) -> tuple[str, ...]:
        """``evaluations``: autocast in evaluations only counts like that of a training."""
        self.look()
        names = dict(self._names)
        if self._lowers_evaluations:
            names["autocast" if evaluations else LOWERS_EVALUATIONS] = None
        if self._training is not None and self._training.records_evaluations:
            names[RECORDS_EVALUATIONS] = None
        if self._training is not None and self._training.modes_without_gradients == {True}:
            names[EVALUATES_IN_TRAINING_MODE] = None
        if self._training is not None and self._training.differentiates_gradients:
            names[DIFFERENTIATES_GRADIENTS] = None
        if self._training is not None and self._training.makes_loaders:
            names[MAKES_LOADERS] = None
        if self._training is not None and self._training.steps_in_backward:
            names[STEPS_IN_BACKWARD] = None
        if self._compiles or self._compiles_function():
            names["compile"] = None
        return tuple(names)

    def _compiles_root(self, roots: list[Module]) -> bool:
        """Many libraries compile a helper when they are imported, and never call it. So a module only counts
        if it is trained, or shares a part with one that is.
        """
        trained = {id(m) for root in roots for m in root.modules()}
        return any(id(part) in trained for module in self._compiled for part in module.modules())

    def _compiles_function(self) -> bool:
        if self._compiled_before_us is not None:
            return self._compiled_before_us
        return self._compiles_functions and compiler.is_imported() and compiler.graphs() > 0

    def watch(self, training: Training, closely: bool = False) -> None:
        """Wrap the functions of torch whose use is noted; ``closely``: also what lengthens a start."""
        self._training = training
        torch = training.torch
        if closely:
            self._watch_start(training)
        replace = training.seams.replace
        replace(torch.amp.autocast_mode.autocast, "__enter__", self._around_autocast)
        replace(torch.amp.GradScaler, "__init__", self._around_scaler)
        for owner in (torch.nn.Module, torch):
            replace(owner, "compile", self._around_compile)
        for name in ("set_num_interop_threads", "set_flush_denormal"):
            replace(torch, name, self._noting(name))
        for owner in (torch.optim.Optimizer, torch.nn.Module):
            replace(owner, "zero_grad", self._noting("zero_grad(set_to_none=False)", _to_zeros))
        replace(torch.nn.utils.rnn, "pack_padded_sequence", self._noting("pack_padded_sequence"))
        for name in ("clip_grad_norm_", "clip_grad_value_", "get_total_norm"):
            replace(torch.nn.utils, name, self._noting("clipping"))

    def _watch_start(self, training: Training) -> None:
        if with_finalizers(tracked_objects()):
            self._names[FINALIZES] = None
        if lazy_dynamo.put_in_place(lambda: self._names.update({IMPORTS_COMPILER: None})):
            training.seams.on_undo(lazy_dynamo.take_away)

    def _around_compile(self, original: Call) -> Call:
        def compile(*args: object, **kwargs: object) -> object:
            target: Any = args[0] if args else kwargs.get("model")
            if getattr(target, "by_hasten", False):
                self._compiled_before_us = self._compiles_function()
            elif hasattr(target, "named_modules"):
                self._compiled.add(target)
            elif callable(target):
                self._compiles_functions = True
            return original(*args, **kwargs)

        return compile

    def _around_autocast(self, original: Call) -> Call:
        def __enter__(autocast: Autocast) -> object:
            if autocast._enabled and not (getattr(autocast, "_by_hasten", False) or self._in_backward()):
                assert self._training is not None
                if self._training.torch.is_grad_enabled():
                    self._names["autocast"] = None
                    self._autocast[str(autocast.fast_dtype).removeprefix("torch.")] = None
                else:
                    self._lowers_evaluations = True
            return original(autocast)

        return __enter__

    def _around_scaler(self, original: Call) -> Call:
        def __init__(scaler: GradScaler, *args: object, **kwargs: object) -> None:
            original(scaler, *args, **kwargs)
            if scaler.is_enabled():  # many scripts always create one, and enable it by an option
                self._names["GradScaler"] = None

        return __init__

    def _noting(self, name: str, counts: Call = lambda *_, **__: True) -> Callable[[Call], Call]:
        def make(original: Call) -> Call:
            def noted(*args: object, **kwargs: object) -> object:
                if counts(*args, **kwargs):
                    self._names[name] = None
                return original(*args, **kwargs)

            return noted

        return make


def _to_zeros(owner: object, set_to_none: bool = True) -> bool:
    return not set_to_none
