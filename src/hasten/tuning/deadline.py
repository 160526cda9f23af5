"""Seconds that run down, and the interface a search needs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from ..records.plan import Plan

Clock = Callable[[], float]


@dataclass
class Deadline:
    """A number of seconds from its creation on. Tests can replace the clock."""

    seconds: float
    clock: Clock = time.monotonic
    began: float = field(init=False)

    def __post_init__(self) -> None:
        self.began = self.clock()

    @property
    def spent(self) -> float:
        return self.clock() - self.began

    @property
    def left(self) -> float:
        """Seconds left; below 0 once it is over."""
        return self.seconds - self.spent

    def left_with(self, plan: Plan) -> float:
        """The same, if ``plan`` has to be checked and confirmed with it."""
        return self.left

    @property
    def with_reserve(self) -> float:
        """The same: nothing is set aside for an end."""
        return self.left

    @property
    def left_for_first(self) -> float:
        """The same: nothing is set aside for an end."""
        return self.left

    def affords_end(self, plan: Plan) -> bool:
        """Whether ``plan`` could still be checked and confirmed if it were found now."""
        return True

    def leave_comparison(self, plan: Plan, seconds: float) -> bool:
        """Whether there is more time, if needed, for a comparison that finds ``plan``: never."""
        return False

    def leave_end(self, plan: Plan) -> bool:
        """Called with a plan that is much faster: whether it can be checked and confirmed, perhaps as
        there is more time now.
        """
        return self.affords_end(plan)

    def search_on(self) -> bool:
        """Called where nothing was found, and the next does not fit: whether there is more time now."""
        return False

    def enough_for(self, plan: Plan, seconds: float) -> int | None:
        """A budget that also leaves ``seconds``; None if none can be named."""
        return None

    def enough_to_have(self, seconds: float) -> float | None:
        """A budget that starts with ``seconds``; None if none can be named."""
        return None

    def gained(self, speedup: float, names: Iterable[str], other_settings: bool = False) -> None:
        """What was found makes training at least this many times faster."""
