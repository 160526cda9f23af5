"""Medians over observed steps."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from .observation import PHASES, Step


def median_phases(steps: Sequence[Step]) -> dict[str, float]:
    """Seconds of the median step in each phase; {} where no step was seen."""
    return {name: median(step.phases[name] for step in steps) for name in PHASES} if steps else {}


def phase_share(steps: Sequence[Step], *names: str) -> float:
    """The part of a step's time that the named phases take, 0 to 1."""
    total = sum(step.seconds for step in steps)
    return sum(step.phases[name] for step in steps for name in names) / total if total else 0.0
