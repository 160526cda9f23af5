"""What a tune reports while it works; showing it is up to others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ..records.cause import Cause
from ..records.observation import Observation
from ..records.plan import Plan
from ..records.result import Tried


class Progress(Protocol):
    """Gets what happens in a tune, in this order."""

    def begin(self) -> None:
        """The budget begins."""

    def grown(self, budget: float, nothing_found: bool = False) -> None:
        """The budget is now this many seconds, because what is left takes longer, or because nothing was
        found so far.
        """

    def budget_of_run(self, budget: float, share: float, run: float) -> None:
        """The budget is now this many seconds, a share of a run's."""

    def remembered(self, comparisons: int, budget: float) -> None:
        """So many comparisons are known from earlier tunes; the budget is now this many seconds."""

    def stage(self, text: str) -> None:
        """A new part of the work begins."""

    def remark(self, text: str) -> None:
        """Something happens during a part of the work; reported once in each part."""

    def observed(self, observation: Observation, causes: Sequence[Cause]) -> None:
        """The script was watched."""

    def trying(self, technique: str, against: Plan) -> None:
        """A comparison begins."""

    def tried(self, row: Tried) -> None:
        """A comparison ended."""
