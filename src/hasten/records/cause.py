"""A cause: why time is lost, with evidence and the techniques it suggests."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Cause:
    """``share`` is the part of the run's time that the cause takes, 0 to 1, or of a step's if the run was
    not watched; ``techniques`` by name.
    """

    name: str
    share: float
    evidence: str
    techniques: tuple[str, ...]
