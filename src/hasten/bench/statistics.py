"""Intervals. Those of ratios are made on logarithms, where a ratio and its inverse are symmetric.

Source for Student's distribution: Abramowitz and Stegun, Handbook of Mathematical Functions, 26.7.3 and
26.7.4.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean, stdev

from ..records.quality import Interval
from ..records.trial import Ratio


def t_probability(t: float, degrees: int) -> float:
    """P(-t < T < t) for Student's T with a whole number of degrees of freedom; t >= 0."""
    angle = math.atan(t / math.sqrt(degrees))
    cosine_squared = math.cos(angle) ** 2
    term, total = (1.0, 1.0) if degrees % 2 == 0 else (math.cos(angle), math.cos(angle))
    first = 2 if degrees % 2 == 0 else 3
    for k in range(first, degrees - 1, 2):
        term *= cosine_squared * (k - 1) / k
        total += term
    if degrees % 2 == 0:
        return math.sin(angle) * total
    if degrees == 1:
        return 2 * angle / math.pi
    return 2 / math.pi * (angle + math.sin(angle) * total)


def t_quantile(two_sided: float, degrees: int) -> float:
    """The t for which P(-t < T < t) = ``two_sided``; found by bisection to 1e-9."""
    low, high = 0.0, 1.0
    while t_probability(high, degrees) < two_sided:
        high *= 2
    while high - low > 1e-9 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if t_probability(middle, degrees) < two_sided else (low, middle)
    return (low + high) / 2


def mean_interval(values: Sequence[float], confidence: float = 0.95) -> Interval | None:
    """The mean with its t interval over independent values; None for fewer than two."""
    count = len(values)
    if count < 2:
        return None
    mean = fmean(values)
    half = t_quantile(confidence, count - 1) * stdev(values) / math.sqrt(count)
    return Interval(mean, mean - half, mean + half, count)


def interval(log_ratios: Sequence[float], unit: str, confidence: float = 0.95) -> Ratio | None:
    """The geometric mean ratio with its t interval over independent units; None for fewer than two."""
    found = mean_interval(log_ratios, confidence)
    if found is None:
        return None
    return Ratio(math.exp(found.value), math.exp(found.low), math.exp(found.high), found.count, unit)


CLAIM_CONFIDENCE = 0.99  # one-sided
CLAIM_LEAST_SPEEDUP = 1.01
CLAIM_LEAST_PROCESSES = 4


def is_gain(log_ratios: Sequence[float]) -> bool:
    """Whether a gain may be claimed: the 99% one-sided lower bound of the speedup is above 1.01.

    ``log_ratios``: one value a pair of fresh processes, of measurements that chose nothing. A one-sided
    bound at 99% is the end of a two-sided interval at 98%.
    """
    if len(log_ratios) < CLAIM_LEAST_PROCESSES:
        return False
    bound = interval(log_ratios, "pairs", 2 * CLAIM_CONFIDENCE - 1)
    return bound is not None and 1 / bound.high > CLAIM_LEAST_SPEEDUP
