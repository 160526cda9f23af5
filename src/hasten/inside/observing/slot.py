"""Wraps the forward pass of a trained module, without a trace in what is copied, pickled or saved."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING

from ..internals.call_slot import CallSlot
from ..internals.modules import compiled_call, holder_of, plain_call, put_call
from ..seams import Args, Call, Kwargs
from ..training import Training
from .batches import observations_in
from .loaders import Loaders
from .observer import Observer
from .padding import PaddingSeen

if TYPE_CHECKING:
    from torch.nn import Module


class ForwardSlot(CallSlot):
    """Sits in a root's ``compiled_call``."""

    def __init__(
        self, root: Module, training: Training, observer: Observer, loaders: Loaders, padding: PaddingSeen
    ) -> None:
        super().__init__(root)
        self._training = training
        self._observer = observer
        self._loaders = loaders
        self._padding = padding
        self._holder: weakref.ref[Module] | None = None  # once it was asked for, which takes 5 us
        torch = training.torch
        self._tracing, self._exporting = torch.jit.is_tracing, torch.compiler.is_exporting  # 0.1 us together
        self.compiled_by_script = _scripts_own(compiled_call(root))
        self._time_first = any(getattr(module, "batch_first", True) is False for module in root.modules())

    def __call__(self, *args: object, **kwargs: object) -> object:
        clone = self.clone()
        if clone is not None:
            return (self.compiled_by_script or plain_call(clone))(*args, **kwargs)
        root = self.module()
        assert root is not None
        call = self.compiled_by_script or plain_call(root)
        training, observer = self._training, self._observer
        if observer.in_forward or training.seams.given_up or self._tracing() or self._exporting():
            return call(*args, **kwargs)
        began, recording, output, trains = 0.0, training.torch.is_grad_enabled(), None, True
        if not recording and training.is_helper(root):
            return self._help(root, call, args, kwargs)
        try:
            trains = root.training if recording else self._in_training(root)
            if recording:
                self._loaders.batch_went_in(trains)
                if training.before_passes is not None:
                    training.before_passes()
                if training.on_inputs is not None:
                    training.on_inputs((args, kwargs))
                if not (trains or training.is_untrained(root)):
                    training.records_evaluations = True
                if self._padding.wants_more:
                    self._padding.look((args, kwargs))
            else:
                training.modes_without_gradients.add(trains)
            began = observer.forward_begins(recording)
        except Exception as error:
            training.seams.give_up(error)
        try:
            wrapped, follow = training.forward_wrappers, training.follow
            if follow is not None:
                output = follow(root, _whole(training, root, call), args, kwargs)
            else:
                output = training.forward(root, call, args, kwargs) if wrapped else call(*args, **kwargs)
            return output
        finally:
            if not training.seams.given_up:
                try:
                    mode = trains or training.is_untrained(root)
                    observations = 0 if recording or mode else observations_in((args, kwargs))
                    observer.forward_ends(began, recording, mode, observations, id(root))
                    if recording and observer.counts_inputs and output is not None:
                        observer.passes.forward_ended(root, self._time_first, (args, kwargs), output)
                except Exception as error:
                    training.seams.give_up(error)

    def _in_training(self, root: Module) -> bool:
        """The mode of a pass that records no gradients. A loss that holds the model stays in training mode
        while the script evaluates the model.
        """
        if not root.training:
            return False
        holder = self._holder() if self._holder is not None else None
        if holder is None:
            holder = holder_of(root)
            self._holder = weakref.ref(holder)
        return holder.training

    def _help(self, root: Module, call: Call, args: Args, kwargs: Kwargs) -> object:
        """A pass of a helper that records no gradients. Its time counts as that of the loop's own code."""
        self._observer.in_forward = True
        try:
            return self._training.forward(root, call, args, kwargs)
        finally:
            self._observer.in_forward = False


def _whole(training: Training, root: Module, call: Call) -> Call:
    """``call`` with all that techniques put around it."""
    return lambda *args, **kwargs: training.forward(root, call, args, kwargs)


def take_out(root: Module) -> None:
    """Remove its slot, if it has one."""
    call = compiled_call(root)
    if isinstance(call, ForwardSlot):
        put_call(root, _scripts_own(call))


def has_slot(module: Module) -> bool:
    """Whether it has one of its own, not that of a module that it is a clone of."""
    call = compiled_call(module)
    return isinstance(call, ForwardSlot) and call.module() is module


def _scripts_own(call: Call | None) -> Call | None:
    return call.compiled_by_script if isinstance(call, ForwardSlot) else call
