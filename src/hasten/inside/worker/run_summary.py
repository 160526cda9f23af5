"""The summary of a whole training: when its steps ended, and the metrics that its script reported."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from ...records.quality import MetricValue, RunSummary
from ..observing.raw_step import RawStep

if TYPE_CHECKING:
    from torch import Tensor


class Summarizer:
    """Collects the summary while the script trains from start to end; it is sent only at the end."""

    def __init__(self) -> None:
        self._step_ends: list[float] = []
        self._metrics: list[MetricValue] = []
        self._losses: list[Tensor | float] = []
        self._remarks: list[str] = []
        self.worked: tuple[str, ...] | None = None  # techniques that had an effect

    def step_ended(self, step: RawStep) -> None:
        self._step_ends.append(time.monotonic())
        if step.losses:
            self._losses = step.losses

    def metric_said(self, values: Mapping[str, float]) -> None:
        """The script has reported these metrics now."""
        now, steps = time.monotonic(), len(self._step_ends)
        self._metrics += [MetricValue(name, value, now, steps) for name, value in values.items()]

    def remark(self, text: str) -> None:
        """Keep what ``hasten run`` would say to the user."""
        self._remarks.append(text)

    def summary(self) -> RunSummary:
        return RunSummary(
            step_ends=tuple(self._step_ends),
            metrics=tuple(self._metrics),
            losses=tuple(float(loss) for loss in self._losses),
            remarks=tuple(self._remarks),
            worked=self.worked,
        )
