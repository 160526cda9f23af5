"""Whether a tune's budget is long enough for an honest answer: once the script has been watched, when what is
found is slow to set up, and once the plan has been checked. One that nobody named grows.
"""

from __future__ import annotations

import math

from ..bench.comparing.steps import Rhythm
from ..bench.script_bench import ScriptBench
from ..errors import Refusal
from ..records.observation import Observation
from ..records.plan import BASELINE, Plan
from ..records.whole_run import account_of
from ..units import seconds_words
from .budget import Budget
from .progress import Progress
from .request import TuneRequest

_GROWN = 1.3  # times the shortest honest tune: what a budget that nobody named grows to
_SUGGESTED = 1.5
_SEARCH_SECONDS = 110.0  # that the search has in a budget that nobody named
_OUTSIDE_SECONDS = 60.0  # in addition, where evaluation takes a good part: it is compared by long stretches
_GOOD_PART = 0.3  # of a run
_LITTLE = 0.05  # of the budget, that the confirmation or the search may have less than foreseen
_TENS = 10.0  # a budget grows by so many seconds


def divide(
    budget: Budget,
    request: TuneRequest,
    observation: Observation,
    rhythm: Rhythm,
    bench: ScriptBench,
    progress: Progress,
) -> None:
    """Divide ``budget``. If it is too short for an honest answer, or leaves the search too little to find
    one, because the start or steps are slow, it grows as far as the request allows.

    Raises Refusal if it is still too short.
    """
    budget.divide(observation, bench.pairs.steps_needed, bench)
    grown = max(budget.least, min(_enough(budget, observation), request.budget_most))
    if budget.seconds < grown <= request.budget_most:
        budget.seconds = grown
        budget.divide(observation, bench.pairs.steps_needed, bench)
        progress.grown(grown)
    if budget.seconds < budget.least:
        raise Refusal(
            f"{request.script.label} takes {seconds_words(observation.start_seconds)} to its first step and "
            f"{seconds_words(rhythm.cycle_seconds / rhythm.cycle)} a step, so an honest answer, by fresh "
            f"processes, takes at least {budget.least:.0f} s, and the budget is {budget.seconds:.0f} s: "
            f"try --budget {_SUGGESTED * budget.least:.0f}"
        )


def leave_search(budget: Budget, request: TuneRequest, plan: Plan, had: float, progress: Progress) -> None:
    """Grow ``budget``, as far as the request allows, if little is left to search once ``plan`` is found:
    setting it up in every process of its confirmation takes long. ``had``: seconds that the search has taken.
    """
    wanted = min(_SEARCH_SECONDS - had, budget.search_left(BASELINE))
    if wanted <= 0 or wanted - budget.search_left(plan) <= _LITTLE * budget.seconds:
        return
    before = budget.seconds
    while budget.search_left(plan) < wanted and budget.seconds + _TENS <= request.budget_most:
        budget.seconds += _TENS
    if budget.seconds > before:
        progress.grown(budget.seconds)


def leave_confirmation(budget: Budget, request: TuneRequest, plan: Plan, progress: Progress) -> None:
    """Grow ``budget``, as far as the request allows, if little is left to confirm ``plan``: a check that took
    longer than foreseen is not paid for by pairs. Call it before the first pair, so that no result decides.
    """
    lacking = budget.lacking(plan)
    grown = min(_TENS * math.ceil((budget.seconds + lacking) / _TENS), request.budget_most)
    if lacking > _LITTLE * budget.seconds and grown > budget.seconds:
        budget.seconds = grown
        progress.grown(grown)


def _enough(budget: Budget, observation: Observation) -> float:
    """The budget that leaves the search enough, in tens of seconds."""
    seconds, run = _SEARCH_SECONDS, observation.run
    if run is not None and account_of(run).basis != "steps":
        seconds += _OUTSIDE_SECONDS * (account_of(run).share("evaluation") >= _GOOD_PART)
    honest = _TENS * math.ceil(_GROWN * budget.least / _TENS) if budget.seconds < budget.least else 0.0
    return max(honest, budget.for_search(seconds))
