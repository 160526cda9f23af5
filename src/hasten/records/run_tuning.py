"""The settings of a run that tries techniques while it trains."""

from __future__ import annotations

from dataclasses import dataclass

from .plan import BASELINE, Plan


@dataclass(frozen=True)
class RunTuning:
    """Techniques of risk "exact" are tried, and ``passed``: what the guard has passed with this script, here.
    ``steps`` that the run takes, None if that is not known. ``at_once``: in its first steps; the
    question is opened again after so many steps, or seconds, where these are given.
    """

    passed: Plan = BASELINE
    steps: int | None = None
    at_once: bool = True
    again_steps: int | None = None
    again_seconds: float | None = None
