"""When a gain may be claimed, and how small a gain would have been.

Two things can be wrong with what pairs of fresh processes say: that they scatter, which the bound of
Student's t covers, and that some processes of the plan are slow and the pairs show none of them, which no
interval covers. So what such processes would cost, were one in ten of them slow, is taken off.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, median, stdev

from .statistics import CLAIM_CONFIDENCE, excess_found, t_quantile

CLAIM_LEAST_SPEEDUP = 1.01
CLAIM_LEAST_PROCESSES = 4

SLOW = math.log(22 / 14)  # of a process: under glibc's allocator, steps of one script took 14 or 22 ms
_CALLED_SLOW = SLOW / 2  # half-way to it
ONE_IN = 10  # processes of the plan that one slow one is reckoned with, until more were seen
LOOKS_MOST = 20  # processes of the plan that are started alone, at most: more find little more


def is_gain(log_ratios: Sequence[float], looks: Sequence[float] = ()) -> bool:
    """Whether a gain may be claimed: the 99% one-sided lower bound of the speedup is above 1.01, also if one
    process in ten of the plan were slow; where more were seen, one in so many.

    ``log_ratios``: one value a pair of fresh processes, of measurements that chose nothing. ``looks``: of
    processes of the plan that were started besides, the logarithm of each one's time over the usual one's.
    """
    return margin(log_ratios) > allowance(log_ratios, looks)


def margin(log_ratios: Sequence[float]) -> float:
    """How far the 99% bound lies beyond what a claim needs, as a logarithm; below 0 where it does not."""
    count = len(log_ratios)
    if count < CLAIM_LEAST_PROCESSES:
        return -math.inf
    half = t_quantile(2 * CLAIM_CONFIDENCE - 1, count - 1) * stdev(log_ratios) / math.sqrt(count)
    return -(fmean(log_ratios) + half) - math.log(CLAIM_LEAST_SPEEDUP)


def allowance(log_ratios: Sequence[float], looks: Sequence[float] = ()) -> float:
    """What slow processes of the plan add to the mean log ratio, beyond what the pairs show.

    As if one in ten were slow, or with more than that seen, the next: the rule of succession. Where a pair
    was slow it is 0, since then such processes are in the mean and in how far the pairs lie apart.
    """
    if shows_slow(log_ratios):
        return 0.0
    return (SLOW + sum(filter(is_slow, looks))) / reckoned(len(log_ratios) + len(looks))


def reckoned(seen: int) -> int:
    """With how many processes of the plan one that is slow is reckoned, where so many were seen."""
    return max(ONE_IN, seen + 1)


def shows_slow(log_ratios: Sequence[float]) -> bool:
    """Whether a pair stands out by a slow process of the plan."""
    return is_slow(max(log_ratios) - median(log_ratios))


def is_slow(log_times: float) -> bool:
    """Of the logarithm of a process's time over the usual one's."""
    return log_times > _CALLED_SLOW


def with_slow(log_ratios: Sequence[float], looks: Sequence[float]) -> float:
    """What slow processes, seen besides the pairs, add to the mean log ratio of all that were seen."""
    return sum(filter(is_slow, looks)) / (len(log_ratios) + len(looks)) if log_ratios else 0.0


def looks_needed(log_ratios: Sequence[float], looks: Sequence[float] = ()) -> int | None:
    """How many processes more of the plan make it a claim, if none of them is slow; 0 where it is one.

    None: however many do not.
    """
    left = margin(log_ratios)
    if left <= 0:
        return None
    missing = allowance(log_ratios, looks) / left  # times what may be added
    seen = len(log_ratios) + len(looks)
    return 0 if missing < 1 else math.floor(reckoned(seen) * missing) - seen


def worth_looking(log_ratios: Sequence[float], looks: Sequence[float], most: int) -> bool:
    """Whether more processes of the plan, up to ``most`` in all, may make a claim of what is none yet."""
    needed = looks_needed(log_ratios, looks)
    return needed is not None and 0 < needed <= most - len(looks)


def looks_of(seconds: Sequence[float], pairs: int) -> list[float]:
    """What ``is_gain`` takes of processes alone. ``seconds``: of all of the plan's, those of the ``pairs``
    first, whose median is the usual one.
    """
    usual = median(seconds[:pairs])
    return [math.log(one / usual) for one in seconds[pairs:]]


def least_found(log_ratios: Sequence[float], pairs: int, looks: int = 0) -> float:
    """The smallest gain, 0.04 for 4%, that ``pairs`` pairs would find which scatter like ``log_ratios``.

    It is claimed in four of five such comparisons, smaller ones less often. ``pairs``: at least as many as a
    claim needs. ``looks``: how many processes more of the plan may be started where that decides. What was
    found, gain or loss, does not enter: only how far the pairs lie apart.
    """
    error = stdev(log_ratios) / math.sqrt(pairs)
    unseen = 0.0 if shows_slow(log_ratios) else SLOW / reckoned(pairs + looks)
    return CLAIM_LEAST_SPEEDUP * math.exp(excess_found(pairs) * error + unseen) - 1


@dataclass(frozen=True)
class Effort:
    """Of a confirmation: its pairs, and how many processes more of the plan it may start."""

    pairs: int
    looks: int = 0

    @property
    def in_pairs(self) -> float:
        """Two processes of the plan take no longer than a pair."""
        return self.pairs + self.looks / 2


def effort_to_find(gain: float, log_ratios: Sequence[float], most: Effort) -> Effort | None:
    """The least that would find ``gain`` where pairs scatter like ``log_ratios``; None where ``most`` does
    not. Pairs come first, since each shows a process of the plan, too.
    """
    steps = [Effort(pairs) for pairs in range(CLAIM_LEAST_PROCESSES, most.pairs + 1)]
    steps += [Effort(most.pairs, looks) for looks in range(1, most.looks + 1)]
    return next((e for e in steps if least_found(log_ratios, e.pairs, e.looks) <= gain), None)
