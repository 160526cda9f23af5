"""A plan's step time from its tune, as stored in the plan's file."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from ..records.run_pace import TunedPace
from .files import SavedPlan

_STEP, _MOST, _SAMPLES = "step_seconds", "step_seconds_most", "samples_per_step"
_WAIT = "step_data_seconds"
_DIGITS = 4


def as_measured(pace: TunedPace | None) -> dict[str, float]:
    """The entries for the plan's table [measured]; {} if nothing is known."""
    if pace is None:
        return {}
    told = {
        _STEP: pace.step_seconds,
        _MOST: pace.most_seconds,
        _SAMPLES: pace.samples,
        _WAIT: pace.data_seconds,
    }
    return {name: float(f"{value:.{_DIGITS}g}") for name, value in told.items() if value is not None}


def pace_of(saved: SavedPlan) -> TunedPace | None:
    """The plan's step time; None if the plan does not have it, for example one from an older version or
    written by hand.
    """
    step, most = _positive(saved.measured, _STEP), _positive(saved.measured, _MOST)
    if step is None or most is None or most < step:
        return None
    return TunedPace(step, most, _positive(saved.measured, _SAMPLES), _positive(saved.measured, _WAIT))


def _positive(measured: Mapping[str, Any], name: str) -> float | None:
    value = measured.get(name)
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return None
    return float(value) if math.isfinite(value) and value > 0 else None
