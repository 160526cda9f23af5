"""A cause: why time is lost, with evidence and the techniques it suggests."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Cause:
    """``share`` is the part of the run's time that the cause takes, 0 to 1, or of a step's if the run was
    not watched; ``techniques`` by name. ``bound``: the most that any cure can take off that time, with what
    the cause brings along elsewhere; None if it is unknown (a journal of an older version).
    """

    name: str
    share: float
    evidence: str
    techniques: tuple[str, ...]
    bound: float | None = None
    advice: str = ""  # what the user can do by hand: a sentence

    def told(self, remedies: str = "") -> str:
        """The evidence, with what is said of ``remedies``, and the advice after both."""
        return ". ".join(filter(None, (f"{self.evidence}{remedies}", self.advice)))
