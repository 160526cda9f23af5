"""Every call of a module that no other one makes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ..internals.modules import FUNCTIONAL_CALL
from ..seams import Call
from ..training import Training
from .observer import Observer

if TYPE_CHECKING:
    from torch.nn import Module


def watch_calls(
    training: Training,
    observer: Observer,
    called: Callable[[Module, object], None],
    called_without_gradients: Callable[[Module], None],
) -> Callable[[], None]:
    """``called`` gets the module and what it is given, until the result is called; the other one gets the
    module of a call that records no gradients.
    """
    torch, replace, watching = training.torch, training.seams.replace, training.seams.watching
    is_grad_enabled = torch.is_grad_enabled
    consider, consider_other = watching(called), watching(called_without_gradients)

    def looking(original: Call) -> Call:
        # torch's profiler reads ``self`` from this function's frames, and crashes without it
        def __call__(self: Module, *args: object, **kwargs: object) -> object:
            if not (observer.in_forward or observer.in_backward):
                if is_grad_enabled():
                    consider(self, (args, kwargs))
                else:
                    consider_other(self)
            return original(self, *args, **kwargs)

        return __call__

    def looking_first(original: Call) -> Call:
        """Before others take the place of the module's parameters."""

        def _functional_call(module: Module, *args: object, **kwargs: object) -> object:
            if not (observer.in_forward or observer.in_backward) and is_grad_enabled():
                consider(module, ())
            return original(module, *args, **kwargs)

        return _functional_call

    undos = [
        replace(torch.nn.utils.stateless, FUNCTIONAL_CALL, looking_first),
        replace(torch.nn.Module, "__call__", looking),
    ]

    def stop() -> None:
        for undo in undos:
            undo()

    return stop
