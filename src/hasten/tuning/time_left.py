"""What a search asks of its share of a tune's budget."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from ..records.plan import Plan


class TimeLeft(Protocol):
    """The search's share of the budget."""

    @property
    def left(self) -> float:
        """Seconds; 0 or less when it is over."""
        ...

    def left_with(self, plan: Plan) -> float:
        """The same, if ``plan`` were found."""
        ...

    @property
    def with_reserve(self) -> float:
        """Seconds, with what is set aside for the tune's end, but for the least that a claim needs."""
        ...

    @property
    def left_for_first(self) -> float:
        """Seconds for what makes all else shorter: with some that are set aside for the tune's end."""
        ...

    def search_on(self) -> bool:
        """Called where nothing was found, and the next does not fit: whether there is more time now."""
        ...

    def affords_end(self, plan: Plan) -> bool:
        """Whether ``plan`` could still be checked and confirmed, were it found now."""
        ...

    def leave_comparison(self, plan: Plan, seconds: float) -> bool:
        """Whether there is time for a comparison that finds ``plan``, perhaps as there is more time now."""
        ...

    def leave_end(self, plan: Plan) -> bool:
        """The same for a plan that is much faster, for which there may be more time now."""
        ...

    def enough_for(self, plan: Plan, seconds: float) -> float | None:
        """The budget under which ``plan`` could be found in ``seconds`` from now on; None if none can be
        named.
        """
        ...

    def enough_to_have(self, seconds: float) -> float | None:
        """The budget under which the search has this many seconds when it begins; None if none can be
        named.
        """
        ...

    def gained(self, speedup: float, names: Iterable[str], other_settings: bool = False) -> None:
        """A part of what was found makes training at least this many times faster."""
        ...
