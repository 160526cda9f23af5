"""Whether a tune's budget is long enough for an honest answer: once the script has been watched, when what is
found is slow to set up, when nothing is found, when a check stops a part of the plan, and once it is checked.

One that nobody named grows.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

from ..bench.comparing.steps import Rhythm
from ..bench.script_bench import ScriptBench
from ..errors import Refusal
from ..records.observation import Observation
from ..records.plan import BASELINE, Plan
from ..records.thresholds import LARGE_SHARE
from ..records.whole_run import breakdown_of, seconds_in_all
from ..units import seconds_words
from .budget import Budget
from .progress import Progress
from .request import TuneRequest

_GROWN = 1.3  # times the shortest honest tune: what a budget that nobody named grows to
_SUGGESTED = 1.5
_SEARCH_SECONDS = 110.0  # that the search has in a budget that nobody named
_COMPARISONS = 5.0  # live ones that it has time for, where steps are slow
_SLOW_SEARCH_SECONDS = 200.0  # that these get, at most
_PAIRS = 10.0  # of fresh processes that it has time for in addition, where the start is slow
_SLOW_STARTS_SECONDS = 150.0  # that all these get, at most
_OUTSIDE_SECONDS = 60.0  # in addition, where evaluation takes a good part: it is compared by long stretches
_LITTLE = 0.05  # of the budget, that the confirmation or the search may have less than foreseen
_TENS = 10.0  # a budget grows by so many seconds
_FOR_SMALL = 1.5  # times the budget, at most, to confirm a small gain
_ON = 2.0  # times the budget, where nothing was found
_AGAIN = 0.4  # times what an earlier tune took: it made the comparisons that this one begins with


@dataclass
class Allowance:
    """Decides how far ``budget`` grows: as far as the request allows."""

    budget: Budget
    request: TuneRequest
    progress: Progress
    _searched_on: bool = field(default=False, init=False)
    _for_search: float = field(default=_SEARCH_SECONDS, init=False)

    def divide(
        self, observation: Observation, rhythm: Rhythm, bench: ScriptBench, before: float | None = None
    ) -> None:
        """Divide the budget. If it is too short for an honest answer, or leaves the search too little to find
        one, because the start or steps are slow, it grows. ``before``: seconds that an earlier tune of the
        same training took that found a gain, and whose comparisons are known: one that nobody named is less
        than half as long then.

        Raises Refusal if it is still too short, or if it is a share of a run whose length is not known.
        """
        budget, request = self.budget, self.request
        if request.share_of_run is not None:
            self._take_share(observation, request.share_of_run)
        if before is not None and request.budget_most:
            budget.seconds = min(budget.seconds, _AGAIN * before)
            self._for_search, self._searched_on = 0.0, True
        budget.divide(observation, bench.pairs.steps_needed, bench, bench.begins)
        if self._for_search:
            live = _COMPARISONS * bench.foreseen(BASELINE, BASELINE)
            both = live + _PAIRS * budget.costs.pair
            self._for_search = max(
                _SEARCH_SECONDS, min(live, _SLOW_SEARCH_SECONDS), min(both, _SLOW_STARTS_SECONDS)
            )
        enough = _enough(budget, observation, self._for_search)
        grown = max(budget.least, min(enough, request.budget_most))
        if budget.seconds < grown <= request.budget_most:
            self._grow(grown)
            budget.divide(observation, bench.pairs.steps_needed, bench, bench.begins)
        if budget.seconds < budget.least:
            raise Refusal(
                f"{request.script.label} takes {seconds_words(observation.start_seconds)} to its first step "
                f"and {seconds_words(rhythm.cycle_seconds / rhythm.cycle)} a step, so an honest answer, by "
                f"fresh processes, takes at least {budget.least:.0f} s, and the budget is "
                f"{seconds_words(budget.seconds)}: try --budget {_SUGGESTED * budget.least:.0f}"
            )

    def _take_share(self, observation: Observation, share: float) -> None:
        run = observation.run
        seconds = seconds_in_all(run) if run is not None else None
        if seconds is None:
            raise Refusal(
                f"--budget {100 * share:g}%: it is not known how long {self.request.script.label} trains "
                "with these arguments: no tune found that out, and the loops around a step do not say. "
                f"Say how long, as in --budget '{100 * share:g}% of 2h', or give seconds"
            )
        self.budget.seconds = share * seconds
        self.progress.budget_of_run(self.budget.seconds, share, seconds)

    def leave_search(self, plan: Plan, had: float) -> None:
        """Grow the budget if little is left to search once ``plan`` is found: setting it up in every process
        of its confirmation takes long. ``had``: seconds that the search has taken.
        """
        budget = self.budget
        wanted = min(self._for_search - had, budget.search_left(BASELINE))
        if wanted <= 0 or wanted - budget.search_left(plan) <= _LITTLE * budget.seconds:
            return
        grown = before = budget.seconds
        while budget.search_left(plan) < wanted and grown + _TENS <= self.request.budget_most:
            grown = budget.seconds = grown + _TENS
        if grown > before:
            self._grow(grown)

    def leave_end(self, plan: Plan) -> bool:
        """Grow the budget if that leaves time to check and confirm ``plan``; whether it does."""
        return self._grows_until(lambda: self.budget.affords_end(plan), self.request.budget_most)

    def leave_checks(self, plan: Plan, checks: int) -> bool:
        """Grow the budget if that leaves time to check ``plan`` this many times and confirm it; whether it
        does.
        """
        return self._grows_until(lambda: self.budget.affords_guard(plan, checks), self.request.budget_most)

    def leave_comparison(self, plan: Plan, seconds: float, left_with: Callable[[Plan], float]) -> bool:
        """Grow the budget if ``left_with`` the plan that a comparison finds is then as long as that takes;
        whether it is. Not by much: the part of a run that it is about is not most of it.
        """
        most = min(self.budget.seconds + _OUTSIDE_SECONDS, self.request.budget_most)
        return self._grows_until(lambda: left_with(plan) >= seconds, most)

    def _grows_until(self, enough: Callable[[], bool], most: float) -> bool:
        budget, before = self.budget, self.budget.seconds
        while not enough() and budget.seconds + _TENS <= most:
            budget.seconds += _TENS
        if not enough():
            budget.seconds = before
            return False
        if budget.seconds > before:
            self._grow(budget.seconds)
        return True

    def search_on(self) -> bool:
        """Grow the budget, once, as the search would end with nothing found; whether it has grown."""
        grown = min(_ON * self.budget.seconds, self.request.budget_most)
        if self._searched_on or grown <= self.budget.seconds:
            return False
        self._searched_on = True
        self._grow(grown, nothing_found=True)
        return True

    def leave_confirmation(self, plan: Plan) -> None:
        """Grow the budget if little is left to confirm ``plan``: a check that took longer than foreseen is
        not paid for by pairs, and a small gain needs more of them. Call it before the first pair, so that no
        result decides. What that leaves over is for nothing else.
        """
        budget = self.budget
        more = min(budget.lacking_processes(plan), (_FOR_SMALL - 1) * budget.seconds)
        more = 0.0 if budget.for_confirmation else more  # of the next best plan: it has grown for the first
        lacking = max(more, budget.lacking(plan))
        grown = min(_TENS * math.ceil((budget.seconds + lacking) / _TENS), self.request.budget_most)
        if lacking > _LITTLE * budget.seconds and grown > budget.seconds:
            budget.for_confirmation += grown - budget.seconds
            self._grow(grown)

    def _grow(self, seconds: float, nothing_found: bool = False) -> None:
        self.budget.seconds = seconds
        self.progress.grown(seconds, nothing_found)


def _enough(budget: Budget, observation: Observation, for_search: float = _SEARCH_SECONDS) -> float:
    """The budget that leaves the search enough, in tens of seconds."""
    honest = _TENS * math.ceil(_GROWN * budget.least / _TENS) if budget.seconds < budget.least else 0.0
    if not for_search:
        return honest
    run = observation.run
    if run is not None and breakdown_of(run).basis != "steps":
        for_search += _OUTSIDE_SECONDS * (breakdown_of(run).share("evaluation") >= LARGE_SHARE)
    return max(honest, budget.for_search(for_search))
