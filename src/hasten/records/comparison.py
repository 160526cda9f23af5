"""What two trainings that were compared came to: their losses, and single steps of one state and one batch.

Scales and residuals are relative to the baseline's; None stands for what is no number.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from .codec import to_json


@dataclass(frozen=True)
class LossCurve:
    """``deviation`` is the root mean square of the relative differences and ``bias`` their mean; None where
    losses are missing or no numbers. ``held`` is None where no losses were compared.
    """

    held: bool | None = None
    deviation: float | None = None
    bias: float | None = None
    tolerance: float | None = None
    precision: str = ""

    def __bool__(self) -> bool:
        """Whether it was asked for."""
        return self.held is not None

    def to_json(self) -> dict[str, Any]:
        """Every field by its name; nothing where it was not asked for."""
        return _fields_of(self) if self else {}


@dataclass(frozen=True)
class Scale:
    """How many times the baseline's, and by how much it may be off."""

    scale: float | None
    scale_tolerance: float | None
    held: bool


@dataclass(frozen=True)
class TensorScale(Scale):
    """In the median of the steps."""

    tensor: str


@dataclass(frozen=True)
class StepDeparture(Scale):
    """The worst step, and what lies apart in it."""

    step: int
    residual: float | None
    residual_tolerance: float | None


@dataclass(frozen=True)
class TensorDeparture(StepDeparture):
    """Of one tensor."""

    tensor: str


@dataclass(frozen=True)
class SingleSteps:
    """``held`` is None, and ``left_out`` says why, where nothing could be compared.

    ``compared``: "gradient", "update", "buffers", and as "since ..." what had departed between two checks;
    ``counts``: by step, the whole numbers in state and buffers that differ before it.
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
        """Whether single steps were asked for."""
        return self.held is not None or bool(self.left_out)

    def to_json(self) -> dict[str, Any]:
        """Every field by its name; nothing where it was not asked for."""
        return _fields_of(self) if self else {}


def _fields_of(record: LossCurve | SingleSteps) -> dict[str, Any]:
    return {one.name: to_json(getattr(record, one.name)) for one in fields(record)}
