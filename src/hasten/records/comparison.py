"""The comparison of two trainings: their losses, and single steps from one state with one batch.

Scales and residuals are relative to the baseline's; None stands for what is not a number.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from .codec import to_json


@dataclass(frozen=True)
class LossCurve:
    """``deviation`` is the root mean square of the relative differences and ``bias`` their mean; None if
    losses are missing or not numbers. ``held`` is None if no losses were compared.
    """

    held: bool | None = None
    deviation: float | None = None
    bias: float | None = None
    tolerance: float | None = None
    precision: str = ""

    def __bool__(self) -> bool:
        """Whether it was requested."""
        return self.held is not None

    def to_json(self) -> dict[str, Any]:
        """Every field by its name; empty if it was not requested."""
        return _fields_of(self) if self else {}


@dataclass(frozen=True)
class Scale:
    """A multiple of the baseline's, and how far it may be off."""

    scale: float | None
    scale_tolerance: float | None
    held: bool


@dataclass(frozen=True)
class TensorScale(Scale):
    """A tensor's gradient against the baseline's: the median of its scale over steps."""

    tensor: str


@dataclass(frozen=True)
class StepDeparture(Scale):
    """The worst step, and what differs in it."""

    step: int
    residual: float | None
    residual_tolerance: float | None


@dataclass(frozen=True)
class TensorDeparture(StepDeparture):
    """The same for one tensor."""

    tensor: str


@dataclass(frozen=True)
class SingleSteps:
    """If nothing could be compared, ``held`` is None and ``left_out`` says why.

    ``compared``: "gradient", "update", "buffers", and "since ..." for what drifted apart between two checks;
    ``counts``: the integers in state and buffers that differ before a step, by step.
    """

    held: bool | None = None
    left_out: str = ""
    steps: tuple[int, ...] = ()
    precision: str = ""
    draws: bool = False
    compared: Mapping[str, StepDeparture] = field(default_factory=dict)
    mean_scale: Scale | None = None  # of the gradient, over all steps
    worst_tensor: TensorDeparture | None = None
    worst_scale: TensorScale | None = None
    counts: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def __bool__(self) -> bool:
        """Whether single steps were requested."""
        return self.held is not None or bool(self.left_out)

    def to_json(self) -> dict[str, Any]:
        """Every field by its name; empty if it was not requested."""
        return _fields_of(self) if self else {}


def _fields_of(record: LossCurve | SingleSteps) -> dict[str, Any]:
    return {one.name: to_json(getattr(record, one.name)) for one in fields(record)}
