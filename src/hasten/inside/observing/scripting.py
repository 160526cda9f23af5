"""``torch.jit.script`` compiles all that a module holds, and cannot compile what stands in for its call."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from types import FunctionType
from typing import TYPE_CHECKING

from ..internals.call_slot import CallSlot
from ..internals.modules import as_without_calls
from ..internals.other_functions import script_as
from ..package import INSIDE
from ..seams import Call
from ..training import Training

if TYPE_CHECKING:
    from torch.nn import Module

_OURS = INSIDE + os.sep


def watch_scripting(training: Training) -> None:
    """Scripts often end so, to export what they have trained."""
    module_class = training.torch.nn.Module

    @training.seams.watching
    def as_torchs_own() -> None:
        for made, original in training.seams.in_force:
            script_as(training.torch, made, original)

    def around(original: Call) -> Call:
        def script(
            obj: Module, optimize: object = None, _frames_up: int = 0, *more: object, **named: object
        ) -> object:
            """``_frames_up``: how far up the names are found that a function uses; we are one more."""
            given = optimize, _frames_up + 1, *more
            as_torchs_own()
            with ExitStack() as stack:
                for meanwhile in list(training.while_scripting.values()):
                    stack.enter_context(meanwhile())
                if isinstance(obj, module_class):
                    for notice in list(training.before_scripting.values()):
                        notice(obj)
                    stack.enter_context(as_without_calls(obj, CallSlot))
                    stack.enter_context(_with_own_forward(training, obj))
                return original(obj, *given, **named)

        return script

    training.seams.replace(training.torch.jit, "script", around)


@contextmanager
def _with_own_forward(training: Training, model: Module) -> Iterator[None]:
    """``forward`` of classes is watched until an optimizer has made a step."""
    taken = []
    for kind in {kind for part in model.modules() for kind in type(part).__mro__}:
        ours = own = vars(kind).get("forward")
        while isinstance(own, FunctionType) and own.__code__.co_filename.startswith(_OURS):
            own = getattr(own, "__wrapped__", None)
        if own is not ours and own is not None:
            taken.append((kind, ours, own))
            setattr(kind, "forward", own)  # noqa: B010  # not every class has it
    try:
        yield
    finally:
        for kind, ours, own in taken:
            if vars(kind).get("forward") is own and not training.seams.given_up:
                setattr(kind, "forward", ours)  # noqa: B010
