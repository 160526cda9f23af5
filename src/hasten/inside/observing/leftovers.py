"""Debugging aids that a script leaves on, and the lines at which its steps wait."""

from __future__ import annotations

import builtins
import os
import sys
from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING

from ...records.observation import COPIES, PROFILER, Leftover, Wait
from ..internals.compiler import left_alone
from ..internals.other_functions import PROFILER_ENABLED, profiling
from ..seams import Call
from ..training import Training
from .observer import clock
from .place import Place
from .stretch import WaitsSeen

if TYPE_CHECKING:
    from torch import Tensor

    from .timeline import Timeline

_ANOMALY, _GRADCHECK = "anomaly detection", "gradcheck"
_GPU, _RANKS = "GPU", "ranks"
_VARIABLES = {  # name: values that slow a training down, and what the training must use for that to matter
    "CUDA_LAUNCH_BLOCKING": ({"1"}, (_GPU,)),
    "TORCH_LOGS": (None, ()),
    "TORCH_DISTRIBUTED_DEBUG": ({"INFO", "DETAIL"}, (_RANKS,)),
    "TORCH_SHOW_CPP_STACKTRACES": ({"1"}, ()),
    "TORCH_CPP_LOG_LEVEL": ({"INFO"}, ()),
    "NCCL_DEBUG": ({"INFO", "TRACE"}, (_GPU, _RANKS)),
}  # fmt: skip
_FETCHES = ("item", "tolist", "cpu", "numpy", "__float__", "__int__", "__bool__")


class Leftovers:
    """Notes, with file and line, what the script switches on. What is off again when its first step ends does
    not count.
    """

    def __init__(self, training: Training) -> None:
        self._torch = training.torch
        self._place = Place(training.torch)
        self._where: dict[str, str] = {}
        self._enabled: dict[str, None] = {}  # since training began, in order
        replace = training.seams.replace
        replace(self._torch, "set_anomaly_enabled", self._noting(_ANOMALY, lambda mode, *_, **__: mode))
        replace(self._torch.autograd.profiler, PROFILER_ENABLED, self._noting(PROFILER))
        replace(self._torch.autograd, "gradcheck", self._noting(_GRADCHECK))
        replace(self._torch.autograd, "gradgradcheck", self._noting(_GRADCHECK))

    def training_begins(self) -> None:
        """The first step has ended."""
        on = {_ANOMALY: self._torch.is_anomaly_enabled(), PROFILER: profiling(self._torch)}
        self._enabled = {name: None for name in self._enabled if on.get(name, True)}

    def found(self) -> tuple[Leftover, ...]:
        """The debugging aids that are on now, also those set by environment variables that matter here."""
        torch, used = self._torch, _used(self._torch)
        found = [
            Leftover(name, self._where.get(name, ""), removable=name != _GRADCHECK) for name in self._enabled
        ]
        flags = {
            "torch.use_deterministic_algorithms": torch.are_deterministic_algorithms_enabled(),
            "torch.backends.cudnn.deterministic": _GPU in used and torch.backends.cudnn.deterministic,
        }
        found += [Leftover(name, "", removable=False) for name, on in flags.items() if on]
        for name, (slow, needed) in _VARIABLES.items():
            value = os.environ.get(name, "")
            if value and used.issuperset(needed) and (slow is None or value.upper() in slow):
                found.append(Leftover(f"{name}={value}", "", removable=False))
        return tuple(found)

    def _noting(self, name: str, counts: Call = lambda *_, **__: True) -> Callable[[Call], Call]:
        def make(original: Call) -> Call:
            def noted(*args: object, **kwargs: object) -> object:
                if counts(*args, **kwargs):
                    self._enabled[name] = None
                    self._where.setdefault(name, self._place.of_caller())
                return original(*args, **kwargs)

            return noted

        return make


class Waits:
    """Times values fetched from a device, copies to one and prints, by the line of the script. Where there is
    a ``timeline``, which knows steps from evaluations and from what is done between epochs, those of steps.
    """

    def __init__(self, training: Training, timeline: Timeline | None = None) -> None:
        self._torch, self._timeline = training.torch, timeline
        self._place = Place(training.torch)
        self._lines: WaitsSeen = {}
        self._inside = False
        if timeline is not None:
            timeline.on_waits = self._add
        replace = training.seams.replace
        self._undo = [replace(training.torch.Tensor, name, self._timing(f".{name}()")) for name in _FETCHES]
        self._undo.append(replace(builtins, "print", self._timing("print")))
        for what in COPIES:
            name = what[1:-2]
            self._undo.append(replace(training.torch.Tensor, name, self._timing(what, _went_to_a_device)))

    def training_begins(self) -> None:
        self._lines.clear()

    def found(self, steps: int) -> tuple[Wait, ...]:
        """Longest first. ``steps``: the number taken since training began."""
        rows = [
            Wait(what, where, calls / steps, seconds / steps)
            for (what, where), (calls, seconds) in self._lines.items()
            if steps
        ]
        return tuple(sorted(rows, key=lambda row: -row.seconds))

    def stop(self) -> None:
        while self._undo:
            self._undo.pop()()

    def _timing(self, what: str, counts: Callable[..., bool] = lambda *_: True) -> Callable[[Call], Call]:
        """``counts`` (what was returned, the arguments)."""
        is_compiling = self._torch.compiler.is_compiling

        def make(original: Call) -> Call:
            def timed(*args: object, **kwargs: object) -> object:
                # print(loss) formats the tensor by .item()
                if is_compiling() or self._inside or self._place.is_no_scripts(sys._getframe(1)):
                    return original(*args, **kwargs)
                self._inside = True
                began, result = clock(), None
                try:
                    result = original(*args, **kwargs)
                    return result
                finally:
                    seconds = clock() - began
                    self._inside = False
                    if counts(result, *args):
                        self._count(what, self._place.of_caller(), seconds)

            return left_alone(timed)  # compiled code fetches its own values by some of them

        return make

    def _count(self, what: str, where: str, seconds: float) -> None:
        timeline = self._timeline
        if timeline is None:
            self._add({(what, where): [1, seconds]})
        elif timeline.takes_waits():
            _add_to(timeline.waits, (what, where), 1, seconds)

    def _add(self, waits: WaitsSeen) -> None:
        for line, (calls, seconds) in waits.items():
            _add_to(self._lines, line, calls, seconds)


def _add_to(waits: WaitsSeen, line: tuple[str, str], calls: float, seconds: float) -> None:
    found = waits.get(line)
    if found is None:
        waits[line] = [calls, seconds]
    else:
        found[0] += calls
        found[1] += seconds


def _went_to_a_device(copy: Tensor | None, tensor: Tensor, *_: object) -> bool:
    return copy is not None and tensor.device.type == "cpu" and copy.device.type != "cpu"


def _used(torch: ModuleType) -> set[str]:
    """What this process uses: many scripts set variables that matter only elsewhere."""
    distributed = torch.distributed.is_available() and torch.distributed.is_initialized()
    return {name for name, used in ((_GPU, torch.cuda.is_initialized()), (_RANKS, distributed)) if used}
