"""Anomaly detection and an active profiler are kept off: both record every operator.

It helps if one of them was left on. The training computes the same, bit for bit; but anomaly detection no
longer raises at the first NaN, and the profiler's traces stay empty: leave the technique out for a run whose
trace you want to read. What can only be switched off with different results (deterministic algorithms) or
before the process starts (CUDA_LAUNCH_BLOCKING) is reported and left alone.

Source: https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ...records.facts import Facts
from ...records.plan import Settings
from ...records.trial import Proof
from ..internals.other_functions import PROFILER_ENABLED, collect, profiling
from ..seams import Args, Call, Kwargs
from ..training import Training
from .base import Technique

if TYPE_CHECKING:
    from torch.nn import Module


class DebuggingOff(Technique):
    name = "debugging_off"
    summary = "anomaly detection and an active profiler are kept off"
    layer = "application"
    risk = "exact"
    scope = "live"
    restarts = True

    def __init__(self) -> None:
        self._undo: list[Callable[[], None]] = []
        self._wanted = (False, True)  # the script's: anomaly detection, its check for NaN
        self._plain_set: Callable[[bool, bool], None] | None = None
        self._passes: dict[str, int] = {"anomaly detection": 0, "the profiler": 0}

    @classmethod
    def refuse(cls, facts: Facts) -> list[str]:
        found = facts.observation.leftovers
        return [] if any(leftover.removable for leftover in found) else ["nothing of that kind is on"]

    def install(self, training: Training, settings: Settings) -> None:
        torch, replace = training.torch, training.seams.replace
        self._wanted = (torch.is_anomaly_enabled(), torch.is_anomaly_check_nan_enabled())
        self._plain_set = torch.set_anomaly_enabled
        torch.set_anomaly_enabled(False)

        def wanting(original: Call) -> Call:
            def set_anomaly_enabled(enabled: bool, check_nan: bool = True) -> None:
                self._wanted = (enabled, check_nan)

            return set_anomaly_enabled

        def enabling(original: Call) -> Call:
            def _enable_profiler(*args: object, **kwargs: object) -> object:
                result = original(*args, **kwargs)
                collect(torch, False)
                return result

            return _enable_profiler

        def forward(root: Module, call: Call, args: Args, kwargs: Kwargs) -> object:
            self._passes["anomaly detection"] += self._wanted[0]
            self._passes["the profiler"] += profiling(torch)
            return call(*args, **kwargs)

        self._undo = [
            replace(torch, "set_anomaly_enabled", wanting),
            replace(torch, "is_anomaly_enabled", lambda _: lambda: self._wanted[0]),
            replace(torch, "is_anomaly_check_nan_enabled", lambda _: lambda: self._wanted[1]),
            replace(torch.autograd.profiler, PROFILER_ENABLED, enabling),
        ]
        if profiling(torch):
            collect(torch, False)
        training.forward_wrappers[self.name] = forward

    def remove(self, training: Training) -> None:
        torch = training.torch
        training.forward_wrappers.pop(self.name, None)
        while self._undo:
            self._undo.pop()()
        if self._plain_set is not None:
            self._plain_set(*self._wanted)
        if profiling(torch):
            collect(torch, True)

    def proof(self, training: Training) -> Proof:
        """Counts the forward passes during which the script wanted one of them on."""
        counts = ", ".join(f"{count} of {name}" for name, count in self._passes.items() if count)
        return Proof(
            self.name, bool(counts), f"forward passes without what was asked for: {counts or 'none'}"
        )

    @classmethod
    def by_hand(cls, settings: Settings) -> str:
        return (
            "# leave out torch.autograd.set_detect_anomaly(True) / detect_anomaly(),\n"
            "# and torch.profiler.profile(...) around the training loop"
        )
