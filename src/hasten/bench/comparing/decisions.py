"""Every rule that decides a comparison of two plans: what the search keeps, what a tune may claim, and how
small a gain each would have found.

The search decides on 95% intervals of comparisons that may stop early (on a 99% interval if they are live);
it only guides, and claims nothing. Tests simulate how often it keeps what gains nothing and loses what gains,
and ``python -m benchmarks.known_effects`` measures it; ``python -m benchmarks.coverage`` measures how often a
claim is false (docs/measuring.md). Ratios are b's time over a's: below 1, b is faster.

If a tune has two possible claims, of which it makes one (``tuning/confirming.py``), they share the error of
1%: ``claims`` is their number.

Two things can be wrong with the pairs behind a claim. They scatter: the bound of Student's t covers that. And
some processes under the plan may be slow while the pairs show none of them: no interval covers that. So the
cost of such processes, if one in ten were slow, is subtracted.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, median, stdev

from ...records.thresholds import CLEAR_BELOW, KEEP_BELOW, SLOWER_ABOVE
from ...records.trial import Ratio
from .statistics import CLAIM_CONFIDENCE, excess_found, t_quantile

# ---- the search
LARGE_BELOW = 0.9  # the interval ends below this: a gain that is worth a longer tune
LIKELY_BELOW = 0.95  # of the value, where few pairs cannot be sure: worth a confirmation
KNOWN_WITHIN = 0.01  # an interval so narrow tells all that the search needs
_CLEARLY_WORSE = math.log(1.15)  # of every ABBA block: one is b against a, twice
_LOST_AT_ONCE = math.log(1.25)
_GOOD_GAIN = 0.25  # what most of the larger gains of single techniques come to
LEAST_TO_TELL = 3  # two values may agree by chance: they do not show which gains they could find


def gains(ratio: Ratio | None) -> bool:
    """Whether the search keeps b."""
    return ratio is not None and ratio.high < KEEP_BELOW


def ratio_if_gained(ratio: Ratio | None) -> float:
    """b's time over a's as measured where that gains for sure; infinite where it does not."""
    return ratio.value if ratio is not None and gains(ratio) else math.inf


def worth_repeating(ratio: Ratio | None, faster: float = 1.0) -> bool:
    """Whether b looks faster without certainty: a disturbed minute hides gains of this size. ``faster``: so
    many times faster is everything since: what b saves is that much more of it.
    """
    return ratio is not None and 1 - faster * (1 - ratio.value) < CLEAR_BELOW and not gains(ratio)


def is_slower(ratio: Ratio | None) -> bool:
    """Whether b is slower than a."""
    return ratio is not None and ratio.low > 1


def likely(ratio: Ratio | None) -> bool:
    """Whether b, uncertain after few pairs, is worth a confirmation."""
    return ratio is not None and ratio.value < LIKELY_BELOW


def is_clear(ratio: Ratio) -> bool:
    """Whether more of the same comparison would not change the decision."""
    return ratio.high < CLEAR_BELOW or is_slower(ratio)


def known_well(ratio: Ratio) -> bool:
    """Whether the search needs nothing more, clear or not."""
    return ratio.high - ratio.low < KNOWN_WITHIN


def all_much_slower(log_ratios: Sequence[float]) -> bool:
    """Whether two pairs already leave no doubt that b is slower."""
    return min(log_ratios) > SLOWER_ABOVE


def lost_at_once(log_ratios: Sequence[float]) -> bool:
    """Whether the first pair, which nothing disturbed, leaves no doubt: settings of a technique race, and
    what loses so much wins nothing by a second one. One process in dozens is slow from its start to its end,
    so that a gain is seldom lost.
    """
    return len(log_ratios) == 1 and log_ratios[0] > _LOST_AT_ONCE


def clearly_worse(log_ratios: Sequence[float]) -> bool:
    """Whether two ABBA blocks leave no doubt: what loses so much in both wins nothing by more of them."""
    return len(log_ratios) > 1 and min(log_ratios) > _CLEARLY_WORSE


def excludes_gain(ratio: Ratio | None, proven: bool) -> bool:
    """Whether a comparison shows that there is no gain, and not only that it cannot tell.

    ``proven``: b's technique gained alone at least once. For one that never did, excluding a smaller gain is
    enough.
    """
    return ratio is not None and ratio.low >= (KEEP_BELOW if proven else CLEAR_BELOW)


def cannot_tell(ratio: Ratio) -> bool:
    """For a comparison that found no gain: whether it could have missed one of a known size."""
    return not is_slower(ratio) and ratio.count >= LEAST_TO_TELL


def least_kept(ratio: Ratio, count: int | None = None) -> float:
    """The smallest gain that the search would keep in four of five comparisons of ``count`` units (None: the
    same number) that scatter like those of ``ratio``. At least ``LEAST_TO_TELL`` in both.

    Ignores that a comparison may stop early: then it finds a little more.
    """
    count = count or ratio.count
    half = math.log(ratio.high / ratio.low) / 2
    error = half / t_quantile(0.95, ratio.count - 1) * math.sqrt(ratio.count / count)
    return math.exp(excess_found(count, 0.95) * error) / KEEP_BELOW - 1


def count_to_keep(gain: float, ratio: Ratio, most: int) -> int | None:
    """How many units that scatter like those of ``ratio`` would keep ``gain``; None if ``most`` do not."""
    enough = range(LEAST_TO_TELL, most + 1)
    return next((count for count in enough if least_kept(ratio, count) <= gain), None)


def tells(ratios: Sequence[Ratio]) -> bool:
    """Whether more comparisons like these, of other techniques, are worth their time: half of those that
    found no gain would have found a good one. Where all are slower, they tell.
    """
    found = [least_kept(ratio) for ratio in ratios if cannot_tell(ratio)]
    return not found or median(found) <= _GOOD_GAIN


# ---- claims
CLAIM_LEAST_SPEEDUP = 1.01
CLAIM_LEAST_PROCESSES = 4

SLOW = math.log(22 / 14)  # of a process: under glibc's allocator, one script's steps took 14 or 22 ms
_CALLED_SLOW = SLOW / 2  # half-way to it
ONE_IN = 10  # one process in this many is assumed slow, until more were seen
LOOKS_MOST = 20  # most processes under the plan started alone: more add little


def is_gain(
    log_ratios: Sequence[float], looks: Sequence[float] = (), claims: int = 1, slow: float = SLOW
) -> bool:
    """Whether a gain may be claimed: the 99% one-sided lower bound of the speedup is above 1.01, even if one
    in ten processes under the plan were slow; if more were seen, one in that many. 99.5% if two ``claims``
    are at stake.

    ``log_ratios``: one value per pair of fresh processes, from measurements that chose nothing. ``looks``:
    for additional processes under the plan, the logarithm of each one's time over the usual one's. ``slow``:
    what a slow process makes of the time compared, as ``slow_in`` says.
    """
    return margin(log_ratios, claims) > allowance(log_ratios, looks, slow)


def margin(log_ratios: Sequence[float], claims: int = 1) -> float:
    """How far the 99% bound lies beyond what a claim needs, as a logarithm; below 0 if it does not."""
    count = len(log_ratios)
    if count < CLAIM_LEAST_PROCESSES:
        return -math.inf
    half = t_quantile(_two_sided(claims), count - 1) * stdev(log_ratios) / math.sqrt(count)
    return -(fmean(log_ratios) + half) - math.log(CLAIM_LEAST_SPEEDUP)


def _two_sided(claims: int) -> float:
    """The confidence of the interval whose end is the bound of each."""
    return 1 - 2 * (1 - CLAIM_CONFIDENCE) / claims


def slow_in(share: float) -> float:
    """What a slow process makes of a time, as a logarithm, of which its steps are this share: the rest is as
    usual.
    """
    return math.log1p(share * math.expm1(SLOW))


def allowance(log_ratios: Sequence[float], looks: Sequence[float] = (), slow: float = SLOW) -> float:
    """What slow processes under the plan add to the mean log ratio, beyond what the pairs show.

    As if one in ten were slow or, if more were seen, the next one: the rule of succession. If a pair was slow
    it is 0, because then such processes are in the mean and in the scatter of the pairs.
    """
    if shows_slow(log_ratios):
        return 0.0
    return (slow + sum(filter(is_slow, looks))) / reckoned(len(log_ratios) + len(looks))


def reckoned(seen: int) -> int:
    """One process in how many is assumed slow, if this many were seen."""
    return max(ONE_IN, seen + 1)


def shows_slow(log_ratios: Sequence[float]) -> bool:
    """Whether a pair stands out because of a slow process under the plan."""
    return is_slow(max(log_ratios) - median(log_ratios))


def is_slow(log_times: float) -> bool:
    """Whether a process is slow, by the logarithm of its time over the usual one's."""
    return log_times > _CALLED_SLOW


def with_slow(log_ratios: Sequence[float], looks: Sequence[float]) -> float:
    """What slow additional processes add to the mean log ratio of all that were seen."""
    return sum(filter(is_slow, looks)) / (len(log_ratios) + len(looks)) if log_ratios else 0.0


def looks_needed(log_ratios: Sequence[float], looks: Sequence[float] = (), claims: int = 1) -> int | None:
    """How many more processes under the plan make it a claim, if none is slow; 0 if it is one.

    None: no number does.
    """
    left = margin(log_ratios, claims)
    if left <= 0:
        return None
    missing = allowance(log_ratios, looks) / left  # relative to what may be added
    seen = len(log_ratios) + len(looks)
    return 0 if missing < 1 else math.floor(reckoned(seen) * missing) - seen


def worth_looking(log_ratios: Sequence[float], looks: Sequence[float], most: int, claims: int = 1) -> bool:
    """Whether more processes under the plan, up to ``most`` in all, may turn this into a claim."""
    needed = looks_needed(log_ratios, looks, claims)
    return needed is not None and 0 < needed <= most - len(looks)


def looks_of(seconds: Sequence[float], pairs: int) -> list[float]:
    """The ``looks`` for ``is_gain``. ``seconds``: of all processes under the plan, those of the ``pairs``
    first, whose median is the usual one.
    """
    usual = median(seconds[:pairs])
    return [math.log(one / usual) for one in seconds[pairs:]]


def least_found(log_ratios: Sequence[float], pairs: int, looks: int = 0, claims: int = 1) -> float:
    """The smallest gain, 0.04 for 4%, that ``pairs`` pairs would find if they scatter like ``log_ratios``.

    It is claimed in four of five such comparisons, smaller ones less often. ``pairs``: at least what a claim
    needs. ``looks``: how many more processes under the plan may be started if that decides. The result
    itself, gain or loss, does not matter: only how much the pairs scatter.
    """
    error = stdev(log_ratios) / math.sqrt(pairs)
    unseen = 0.0 if shows_slow(log_ratios) else SLOW / reckoned(pairs + looks)
    return CLAIM_LEAST_SPEEDUP * math.exp(excess_found(pairs, _two_sided(claims)) * error + unseen) - 1


@dataclass(frozen=True)
class Effort:
    """The effort of a confirmation: its pairs, how many more processes under the plan it may start, and how
    many claims are at stake with it.
    """

    pairs: int
    looks: int = 0
    claims: int = 1

    @property
    def in_pairs(self) -> float:
        """Two processes under the plan take no longer than a pair."""
        return self.pairs + self.looks / 2


def effort_to_find(gain: float, log_ratios: Sequence[float], most: Effort, claims: int = 1) -> Effort | None:
    """The least effort that finds ``gain`` if pairs scatter like ``log_ratios``; None if ``most`` does not.
    Pairs come first, because each also shows a process under the plan.
    """
    steps = [Effort(pairs) for pairs in range(CLAIM_LEAST_PROCESSES, most.pairs + 1)]
    steps += [Effort(most.pairs, looks) for looks in range(1, most.looks + 1)]
    return next((e for e in steps if least_found(log_ratios, e.pairs, e.looks, claims) <= gain), None)
