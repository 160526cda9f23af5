"""What a tune without a claim could not tell: gains too small for it, and the budget that finds smaller
ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from ..bench.comparing.abba_blocks import MOST_ABBA_BLOCKS
from ..bench.comparing.decisions import (
    CLAIM_LEAST_PROCESSES,
    SLOW,
    Effort,
    cannot_tell,
    count_to_keep,
    effort_to_find,
    is_slow,
    least_found,
    least_kept,
)
from ..bench.script_bench import SEARCH_PAIRS
from ..records.conclusion import Looks, Resolution, Unsure
from ..records.result import RUNS, Tried
from ..records.trial import Ratio, Trial
from .costs import EFFORT_MOST, budget_for

SearchBudget = Callable[[float], float]
"""times -> the budget under which the search has this many times the seconds that it had."""


def resolution_of_confirmation(trial: Trial, spent: float) -> Resolution | None:
    """The gain such a confirmation finds, and the budget that would find half of it, or the best possible.

    ``spent``: seconds that the tune has taken. None for fewer pairs than a claim needs.
    """
    pairs = len(trial.log_ratios)
    if pairs < CLAIM_LEAST_PROCESSES:
        return None
    logs, claims = trial.log_ratios, trial.claims
    found = least_found(logs, pairs, trial.looks_most, claims)
    told = percent_up(found)
    wanted = max(found / 2, least_found(logs, EFFORT_MOST.pairs, EFFORT_MOST.looks, claims))
    if percent_up(wanted) == told:
        return Resolution(told, pairs)
    needed = effort_to_find(wanted, logs, EFFORT_MOST, claims)
    if needed is None or needed.in_pairs <= _possible(trial).in_pairs:
        return Resolution(told, pairs)
    return Resolution(told, pairs, percent_up(wanted), _budget(trial, needed, spent))


def why_unsure(trial: Trial, spent: float) -> Unsure:
    """Why the gain that the pairs found is not claimed: processes under the plan are slow, or may be."""
    assert trial.ratio is not None
    faster, pairs = trial.ratio.inverted().value, len(trial.log_ratios)
    slow = sum(map(is_slow, trial.looks))
    done = _possible(trial)
    needed = effort_to_find(faster - 1, trial.log_ratios, EFFORT_MOST, trial.claims)
    if slow and done != EFFORT_MOST:
        needed = EFFORT_MOST
    more = needed is not None and needed.in_pairs > done.in_pairs
    return Unsure(
        speedup=faster,
        pairs=pairs,
        seen=pairs + len(trial.looks),
        slow=slow,
        slower=math.expm1(SLOW),
        budget=_budget(trial, needed, spent) if needed is not None and more else None,
        hopeless=needed is None,
    )


def looks_in(trial: Trial) -> Looks | None:
    """The additional processes under the plan; None if none were started in addition to the pairs."""
    return Looks(len(trial.looks), sum(map(is_slow, trial.looks))) if trial.looks else None


def _possible(trial: Trial) -> Effort:
    """What the confirmation could have started."""
    return Effort(len(trial.log_ratios), trial.looks_most)


def _budget(trial: Trial, needed: Effort, spent: float) -> float:
    taken = Effort(len(trial.log_ratios), len(trial.looks))
    return budget_for(needed, taken, trial.seconds / taken.in_pairs, spent, trial.claims)


def resolution_of_search(tried: Sequence[Tried], budget: SearchBudget | None) -> Resolution | None:
    """The same for a search that found nothing: for the technique it could tell least about."""
    compared = [row for row in tried if not row.kept and row.method != RUNS]  # judged by a claim's rule
    ratios = [row.ratio for row in compared if row.ratio is not None and cannot_tell(row.ratio)]
    if not ratios:
        return None
    found = max(least_kept(ratio) for ratio in ratios)
    wanted = max(found / 2, *(least_kept(ratio, _most(ratio)) for ratio in ratios))
    counts = [(count_to_keep(wanted, ratio, _most(ratio)), ratio.count) for ratio in ratios]
    times = max(needed / count for needed, count in counts if needed is not None)
    if budget is None or times <= 1 or percent_up(wanted) == percent_up(found):
        return Resolution(percent_up(found))
    return Resolution(percent_up(found), finer=percent_up(wanted), budget=budget(times))


def resolution_of(ratio: Ratio) -> int | None:
    """Percent, for one search comparison that found no gain; None if it says slower."""
    return percent_up(least_kept(ratio)) if cannot_tell(ratio) else None


def percent_up(gain: float) -> int:
    """Rounded up, so as not to promise too much."""
    return math.ceil(round(100 * gain, 6))


def _most(ratio: Ratio) -> int:
    """The most units that a comparison of the search has."""
    return max(ratio.count, MOST_ABBA_BLOCKS if ratio.unit == "ABBA blocks" else SEARCH_PAIRS)
