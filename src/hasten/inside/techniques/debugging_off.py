"""Anomaly detection and an active profiler are kept off: both record every operator.

It helps if one of them was left on. The training computes the same, bit for bit; but anomaly detection no
longer raises at the first NaN, and the profiler's traces stay empty: leave the technique out for a run whose
trace you want to read. A profiler whose table the script prints is left on. What can only be switched off
with different results (deterministic algorithms) or before the process starts (CUDA_LAUNCH_BLOCKING) is
reported and left alone.

Source: https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import TYPE_CHECKING

from ...records.facts import Facts
from ...records.plan import Settings
from ...records.trial import Proof
from ..internals.other_functions import PROFILER_ENABLED, collect, profiling
from ..seams import Args, Call, Kwargs
from ..training import NotApplicable, Training
from .base import Technique
from .support.source_places import first_place

if TYPE_CHECKING:
    from torch.nn import Module

_TABLES = {"key_averages", "total_average", "function_events"}  # of what a profiler recorded


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
        self._table = ""  # where the script reads what the profiler recorded

    @classmethod
    def refuse(cls, facts: Facts) -> list[str]:
        found = facts.observation.leftovers
        return [] if any(leftover.removable for leftover in found) else ["nothing of that kind is on"]

    def install(self, training: Training, settings: Settings) -> None:
        torch, replace = training.torch, training.seams.replace
        self._table = table = first_place(training.own_files(), _lines_with_tables)
        if table and profiling(torch) and not torch.is_anomaly_enabled():
            raise NotApplicable(f"the script reads what the profiler recorded, at {table}")
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
            self._passes["the profiler"] += not table and profiling(torch)
            return call(*args, **kwargs)

        self._undo = [
            replace(torch, "set_anomaly_enabled", wanting),
            replace(torch, "is_anomaly_enabled", lambda _: lambda: self._wanted[0]),
            replace(torch, "is_anomaly_check_nan_enabled", lambda _: lambda: self._wanted[1]),
        ]
        if not table:
            self._undo.append(replace(torch.autograd.profiler, PROFILER_ENABLED, enabling))
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
        if profiling(torch) and not self._table:
            collect(torch, True)

    def proof(self, training: Training) -> Proof:
        """Counts the forward passes during which the script wanted one of them on."""
        counts = ", ".join(f"{count} of {name}" for name, count in self._passes.items() if count)
        left = f"; the script reads what the profiler recorded, at {self._table}" if self._table else ""
        return Proof(
            self.name, bool(counts), f"forward passes without what was asked for: {counts or 'none'}{left}"
        )

    @classmethod
    def by_hand(cls, settings: Settings) -> str:
        return (
            "# leave out torch.autograd.set_detect_anomaly(True) / detect_anomaly(),\n"
            "# and torch.profiler.profile(...) around the training loop"
        )


def _lines_with_tables(tree: ast.Module) -> list[int]:
    found = [node for node in ast.walk(tree) if isinstance(node, ast.Attribute) and node.attr in _TABLES]
    return [node.lineno for node in found]
