"""How much of a tune's budget the search may spend."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from ..records.plan import BASELINE, Plan
from .budget import Budget
from .dividing import Allowance

_FIRST_SHARE = 0.5  # of the time left, at most, for what makes all else take less


@dataclass
class SearchTime:
    """The search's share of the budget, which shrinks if the end turns out to take longer. ``found``: the
    search's plan so far.
    """

    budget: Budget
    found: Callable[[], Plan]
    allowance: Allowance | None = None  # None: the budget does not grow
    _last: Plan = field(default=BASELINE, init=False)
    _began: float = field(init=False)
    _granted: float = field(init=False)

    def __post_init__(self) -> None:
        self._began, self._granted = self.budget.spent, self.budget.search_left(BASELINE)

    @property
    def left(self) -> float:
        """Seconds in which something may start: none if it would be stopped at once."""
        plan = self.found()
        if plan != self._last and self.allowance is not None:
            self.allowance.leave_search(plan, self.budget.spent - self._began)
        self._last = plan
        return self.left_with(plan)

    def left_with(self, plan: Plan) -> float:
        """The same, if ``plan`` were found."""
        return min(self.budget.search_left(plan), self.budget.search_most(plan))

    @property
    def left_for_first(self) -> float:
        """Seconds for what makes all else shorter: with some that are set aside for the tune's end, which
        gets shorter, too.
        """
        return min(_FIRST_SHARE * self.budget.left, self.most())

    def search_on(self) -> bool:
        """Called where nothing was found, and the next does not fit: whether there is more time now."""
        return self.allowance is not None and self.allowance.search_on()

    def leave_comparison(self, plan: Plan, seconds: float) -> bool:
        """Called for a part of a run that has come to take a good share of it: whether there is time for a
        comparison that finds ``plan``, perhaps as there is more time now.
        """
        return self.allowance is not None and self.allowance.leave_comparison(plan, seconds, self.left_with)

    def leave_end(self, plan: Plan) -> bool:
        """Called with a plan that is much faster: whether it can be checked and confirmed, perhaps as
        there is more time now.
        """
        return self.affords_end(plan) or (self.allowance is not None and self.allowance.leave_end(plan))

    def affords_end(self, plan: Plan) -> bool:
        """Whether ``plan`` could still be checked and confirmed if it were found now."""
        return self.budget.affords_end(plan)

    def enough_for(self, plan: Plan, seconds: float) -> int | None:
        """The budget that lets the search find ``plan`` in ``seconds`` from now on."""
        return self.budget.enough_for(plan, seconds)

    def enough_to_have(self, seconds: float) -> float:
        """The budget that gives the search this many seconds at its start."""
        return self.budget.for_search(seconds)

    def gained(self, speedup: float, names: Iterable[str], other_settings: bool = False) -> None:
        """A part of what was found makes training at least this many times faster."""
        self.budget.gains.add(speedup, names, other_settings)

    @property
    def with_reserve(self) -> float:
        """Seconds, with what is set aside for the tune's end, but for the least that a claim needs."""
        return self.most()

    def most(self) -> float:
        """When a comparison that starts now is stopped."""
        return self.budget.search_most(self.found())

    def longer(self) -> Callable[[float], float]:
        """Called after the search: maps a factor to the budget that would give the search this many times its
        seconds.
        """
        had = max(self._granted, self.budget.spent - self._began)
        return lambda times: self.budget.for_search(times * had)
