"""What a run tries at the moment, and what that has taken so far."""

from __future__ import annotations

from dataclasses import dataclass

from ...records.plan import Plan
from .contest import Contest


@dataclass
class OwnTrial:
    """One setting of a technique, against what is in force."""

    name: str
    plan: Plan
    contest: Contest
    switching: float = 0.0  # seconds
    steps: int = 0  # under it, and what these took
    seconds: float = 0.0

    def lost(self, each: float) -> float:
        """Seconds that the trial has cost, if a step takes ``each`` without it; below 0 if it gains."""
        return self.switching + self.seconds - self.steps * each

    without: bool = False  # ``plan`` leaves out a technique that is in force
    settled: bool = False  # it was in force for a block before
