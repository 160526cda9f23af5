"""What a whole training tells at its end: when its steps ended, and what its script said of its quality."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from .observer import RawStep


class Account:
    """Kept while the script trains from start to end without a word to the coordinator.

    Times are ``time.monotonic()``, which is one clock for all processes of a machine.
    """

    def __init__(self) -> None:
        self._step_ends: list[float] = []
        self._metrics: list[tuple[str, float, float, int]] = []
        self._losses: list[Any] = []
        self._remarks: list[str] = []

    def step_ended(self, step: RawStep) -> None:
        self._step_ends.append(time.monotonic())
        if step.losses:
            self._losses = step.losses

    def metric_said(self, values: Mapping[str, float]) -> None:
        now, steps = time.monotonic(), len(self._step_ends)
        self._metrics += [(name, value, now, steps) for name, value in values.items()]

    def remark(self, text: str) -> None:
        """What ``hasten run`` would say to the user."""
        self._remarks.append(text)

    def told(self) -> dict[str, Any]:
        """``metrics`` are (name, value, time, steps done until then); ``losses`` those of the last step."""
        return {
            "step_ends": self._step_ends,
            "metrics": self._metrics,
            "losses": [float(loss) for loss in self._losses],
            "remarks": self._remarks,
        }
