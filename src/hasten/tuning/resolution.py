"""What a tune that claims nothing could not tell: gains too small for it, and the budget that finds smaller
ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

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
from ..bench.comparing.live import MOST_ABBA_BLOCKS
from ..bench.script_bench import SEARCH_PAIRS
from ..records.trial import Ratio, Trial
from ..records.verdict import Tried
from .budget import EFFORT_MOST, budget_for

SearchBudget = Callable[[float], float]
"""times -> the budget under which the search has so many times the seconds that it had."""


def confirmation_words(trial: Trial, spent: float) -> str:
    """The gain that such a confirmation finds, and the budget that would find half of it, or what can be.

    ``spent``: seconds that the tune has taken. "" for fewer pairs than a claim needs.
    """
    pairs = len(trial.log_ratios)
    if pairs < CLAIM_LEAST_PROCESSES:
        return ""
    found = least_found(trial.log_ratios, pairs, trial.looks_most)
    text = _too_small(found, f"{pairs} pairs that lie as far apart as these")
    wanted = max(found / 2, least_found(trial.log_ratios, EFFORT_MOST.pairs, EFFORT_MOST.looks))
    if percent_up(wanted) == percent_up(found):
        return text
    needed = effort_to_find(wanted, trial.log_ratios, EFFORT_MOST)
    if needed is None or needed.in_pairs <= _possible(trial).in_pairs:
        return text
    return f"{text}; --budget {_budget(trial, needed, spent):.0f} would find {percent_up(wanted)}"


def unseen_words(trial: Trial, spent: float) -> str:
    """Why the gain that the pairs found is not claimed: processes of the plan that may be slow, or are."""
    assert trial.ratio is not None
    faster, pairs = trial.ratio.inverted(), len(trial.log_ratios)
    slow, seen = sum(map(is_slow, trial.looks)), pairs + len(trial.looks)
    found = f"none that is sure: {pairs} pairs of fresh processes measured {faster.value:.2f} times faster"
    if slow:
        why = f"but {slow} of {seen} processes of the plan were slow, and more may be"
    else:
        why = (
            f"but a process may be slow from start to end (by {math.expm1(SLOW):.0%} where memory falls "
            f"badly), and {seen} of the plan are too few to rule that out for so small a gain"
        )
    done = _possible(trial)
    needed = effort_to_find(faster.value - 1, trial.log_ratios, EFFORT_MOST)
    if slow and done != EFFORT_MOST:
        needed = EFFORT_MOST
    if needed is None:
        return f"{found}, {why}; no --budget shows enough of them"
    if needed.in_pairs <= done.in_pairs:
        return f"{found}, {why}"
    return f"{found}, {why}; --budget {_budget(trial, needed, spent):.0f} would start enough of them"


def looks_words(looks: Sequence[float]) -> str:
    """Of processes of the plan that were started besides the pairs."""
    if not looks:
        return ""
    slow = sum(map(is_slow, looks))
    return f"{len(looks)} further processes under the plan, {slow or 'none'} of them slow"


def _possible(trial: Trial) -> Effort:
    """What the confirmation could have started."""
    return Effort(len(trial.log_ratios), trial.looks_most)


def _budget(trial: Trial, needed: Effort, spent: float) -> float:
    taken = Effort(len(trial.log_ratios), len(trial.looks))
    return budget_for(needed, taken, trial.seconds / taken.in_pairs, spent)


def search_words(tried: Sequence[Tried], budget: SearchBudget | None) -> str:
    """The same of a search that found nothing: of the technique that it could tell least about."""
    ratios = [row.ratio for row in tried if not row.kept and row.ratio is not None and cannot_tell(row.ratio)]
    if not ratios:
        return ""
    found = max(least_kept(ratio) for ratio in ratios)
    text = _too_small(found, "comparisons that vary as the least steady of these")
    wanted = max(found / 2, *(least_kept(ratio, _most(ratio)) for ratio in ratios))
    counts = [(count_to_keep(wanted, ratio, _most(ratio)), ratio.count) for ratio in ratios]
    times = max(needed / count for needed, count in counts if needed is not None)
    if budget is None or times <= 1 or percent_up(wanted) == percent_up(found):
        return text
    return f"{text}; a search under --budget {budget(times):.0f} would find {percent_up(wanted)}"


def trial_words(ratio: Ratio) -> str:
    """Of one comparison of the search in which no gain was found; "" where it says slower."""
    return f" (cannot tell under {percent_up(least_kept(ratio))})" if cannot_tell(ratio) else ""


def percent_up(gain: float) -> str:
    """Rounded up: what is found is not promised smaller than it is."""
    return f"{math.ceil(round(100 * gain, 6))}%"


def _too_small(found: float, what: str) -> str:
    return (
        f". Cannot tell under {percent_up(found)}: {what} find a gain of {percent_up(found)} four times in "
        "five, smaller ones less often"
    )


def _most(ratio: Ratio) -> int:
    """Units that a comparison of the search has at most."""
    return max(ratio.count, MOST_ABBA_BLOCKS if ratio.unit == "ABBA blocks" else SEARCH_PAIRS)
