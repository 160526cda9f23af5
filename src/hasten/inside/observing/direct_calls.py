"""Models that the script calls by ``model.forward(x)``, past the place where hasten and hooks are, or by a
``__call__`` of their own that does so, as GPyTorch's.

Such a call is sent through torch's ``__call__``, which does the same where the module has no hooks. From the
first one that is seen, or an optimizer's creation, until each optimizer has made a step, ``forward`` of every
class of modules is watched; then only of those that were called so.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import wraps
from typing import TYPE_CHECKING

from ..internals.modules import file_of_calls, has_global_hooks, has_hooks
from ..seams import Call
from ..training import Training
from .observer import Observer

if TYPE_CHECKING:
    from torch.nn import Module


_MOST_LOOKS = 8  # at all classes, which takes 1 to 2 ms: some scripts create an optimizer in every step


class DirectCalls:
    """``look`` when an optimizer was created, ``stepped`` after one has made its first step. ``called`` when
    a call was seen before there was anything to train, ``forget`` when such calls may have been for other
    ends.
    """

    def __init__(self, training: Training, observer: Observer) -> None:
        self._training = training
        self._observer = observer
        self._undo: dict[type, Callable[[], None]] = {}
        self._called: set[type] = set()
        self._sending: set[int] = set()  # ids of modules
        self._without_step: set[int] = set()  # serials of optimizers
        self._looks = 0
        self._signatures: dict[Call, inspect.Signature] = {}

    def look(self) -> None:
        if self._looks == _MOST_LOOKS:
            return
        self._looks += 1
        nn = self._training.torch.nn
        self._without_step |= {serial for serial, _ in self._training.numbered_optimizers()}
        for kind in {nn.Sequential, *_derived(nn.Module)} - self._undo.keys():
            self._watch(kind)

    def called(self, kind: type) -> None:
        if kind not in self._called:
            self._called.add(kind)
            self.look()

    def forget(self) -> None:
        self._called.clear()

    def stepped(self, serial: int) -> None:
        self._without_step.discard(serial)
        if self._without_step.isdisjoint(number for number, _ in self._training.numbered_optimizers()):
            self._watch_only_called()

    def _watch_only_called(self) -> None:
        for kind in self._undo.keys() - self._called:
            self._undo.pop(kind)()

    def rest(self) -> None:
        """Watch no further calls: something is about to be compiled, with what is in the place of ``forward``
        now, and would have to be compiled again.
        """
        self._looks = _MOST_LOOKS
        self._watch_only_called()

    def _watch(self, kind: type) -> None:
        before = vars(kind).get("forward")
        ours = self._sent_on(kind, kind.forward)  # type: ignore[attr-defined]  # a module's class
        kind.forward = ours  # type: ignore[attr-defined]

        def undo() -> None:
            if vars(kind).get("forward") is not ours:
                return  # the script has put another in its place
            if before is None:
                del kind.forward  # type: ignore[attr-defined]
            else:
                kind.forward = before  # type: ignore[attr-defined]

        self._undo[kind] = self._training.seams.on_undo(undo)

    def _sent_on(self, kind: type, original: Call) -> Call:
        observer, torch, sending = self._observer, self._training.torch, self._sending
        of_calls = file_of_calls(self._training.torch)

        @wraps(original)
        def forward(module: Module, *args: object, **kwargs: object) -> object:
            if (
                observer.in_forward
                or observer.in_backward  # a checkpoint computes it again
                or type(module) is not kind  # super().forward(x)
                or sys._getframe(1).f_code.co_filename == of_calls
                or id(module) in sending
                or has_hooks(module)
                or has_global_hooks(torch)
                or torch.jit.is_tracing()
            ):
                return original(module, *args, **kwargs)
            self._called.add(kind)
            sending.add(id(module))
            try:
                return torch.nn.Module.__call__(module, *args, **kwargs)
            finally:
                sending.discard(id(module))

        signature = self._signature(original)
        if signature is not None:
            forward.__dict__["__signature__"] = signature
        return forward

    def _signature(self, original: Call) -> inspect.Signature | None:
        """For ``inspect.getfullargspec``, which does not look behind a wrapper. 10 us a function, once.
        What the script has wrapped itself has no names there without us either.
        """
        with suppress(ValueError, TypeError):  # it is none of Python's
            if original not in self._signatures and not hasattr(original, "__wrapped__"):
                self._signatures[original] = inspect.signature(original)
            return self._signatures.get(original)
        return None


def _derived(kind: type) -> Iterator[type]:
    """All classes of modules derived from it that are not torch's own."""
    below: list[type] = type.__subclasses__(kind)
    for one in below:
        if not f"{one.__module__}.".startswith("torch."):
            yield one
        yield from _derived(one)
