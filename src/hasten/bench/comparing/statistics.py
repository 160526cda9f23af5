"""Intervals. For ratios they use logarithms, where a ratio and its inverse are symmetric.

Source for Student's distribution: Abramowitz and Stegun, Handbook of Mathematical Functions, 26.7.3 and
26.7.4.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from statistics import NormalDist, fmean, stdev

from ...records.quality import Interval
from ...records.trial import Ratio


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


@cache  # few degrees, each used often
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


_TRIMMED = 6  # one value in this many at each end, at least one
_LEAST_TO_TRIM = 5


def robust_interval(log_ratios: Sequence[float], unit: str, confidence: float = 0.95) -> Ratio | None:
    """Like ``interval``, or that of the trimmed mean if it is narrower: a disturbed value does not spoil it.
    It guides the search and is never a claim.

    If values are alike, the mean's is nearly always narrower, and then this is ``interval``. Source:
    Tukey and McLaughlin, Less vulnerable confidence procedures for location, Sankhya A 25 (1963).
    """
    usual = interval(log_ratios, unit, confidence)
    count = len(log_ratios)
    if usual is None or count < _LEAST_TO_TRIM:
        return usual
    ordered, ends = sorted(log_ratios), max(1, count // _TRIMMED)
    middle = ordered[ends:-ends]
    spread = stdev([middle[0]] * ends + middle + [middle[-1]] * ends)
    left = len(middle)
    half = t_quantile(confidence, left - 1) * spread * math.sqrt((count - 1) / (left * (left - 1)))
    mean = fmean(middle)
    if 2 * half >= math.log(usual.high / usual.low):
        return usual
    return Ratio(math.exp(mean), math.exp(mean - half), math.exp(mean + half), count, unit)


def combined(ratios: Sequence[Ratio]) -> Ratio:
    """Independent comparisons of the same two plans combined, each weighted by its certainty.

    It guides the search and is never a claim: weights are inverse variances, and the degrees of freedom of
    their sum are those of Meier, Variance of a weighted mean, Biometrics 9 (1953).
    """
    degrees = [ratio.count - 1 for ratio in ratios]
    errors = [
        max(math.log(r.high / r.low) / 2 / t_quantile(0.95, n), _LEAST_ERROR)
        for r, n in zip(ratios, degrees, strict=True)
    ]
    weights = [1 / error**2 for error in errors]
    whole = sum(weights)
    mean = sum(w * math.log(r.value) for w, r in zip(weights, ratios, strict=True)) / whole
    shares = [weight / whole for weight in weights]
    together = max(1, int(1 / sum(s**2 / n for s, n in zip(shares, degrees, strict=True))))
    lost = 1 + 4 * sum(s * (1 - s) / n for s, n in zip(shares, degrees, strict=True))  # for estimated weights
    half = t_quantile(0.95, together) * math.sqrt(lost / whole)
    count = sum(ratio.count for ratio in ratios)
    return Ratio(math.exp(mean), math.exp(mean - half), math.exp(mean + half), count, ratios[-1].unit)


_LEAST_ERROR = 1e-9  # of a logarithm: equal values do not mean infinite certainty


CLAIM_CONFIDENCE = 0.99  # one-sided: the end of a two-sided interval at 98%
FOUND_SHARE = 0.8  # of existing gains are claimed: the meaning of "would be found"
_SLICES = 400


def claim_probability(excess: float, count: int, confidence: float = 2 * CLAIM_CONFIDENCE - 1) -> float:
    """How often a claim's bound is met if the true gain exceeds the smallest one by ``excess``.

    ``excess`` is in standard errors of the mean of ``count`` normal log ratios; ``confidence`` that of the
    two-sided interval whose end decides. This is the upper tail of the noncentral t distribution, as an
    integral over what the spread may be estimated to be.
    Source: Johnson, Kotz and Balakrishnan, Continuous Univariate Distributions 2, chapter 31.
    """
    degrees = count - 1
    bound = t_quantile(confidence, degrees)
    log_scale = math.log(2) + degrees / 2 * math.log(degrees / 2) - math.lgamma(degrees / 2)
    width = (1 + 6 / math.sqrt(degrees)) / _SLICES
    normal = NormalDist()
    total = 0.0
    for number in range(_SLICES):
        estimated = (number + 0.5) * width  # spread, relative to the true one
        density = math.exp(log_scale + (degrees - 1) * math.log(estimated) - degrees * estimated**2 / 2)
        total += normal.cdf(excess - bound * estimated) * density * width
    return total


@cache
def excess_found(count: int, confidence: float = 2 * CLAIM_CONFIDENCE - 1) -> float:
    """The excess, in standard errors, that ``FOUND_SHARE`` of comparisons claim; by bisection to 1e-6."""
    low, high = 0.0, 100.0
    while high - low > 1e-6:
        middle = (low + high) / 2
        low, high = (
            (middle, high) if claim_probability(middle, count, confidence) < FOUND_SHARE else (low, middle)
        )
    return (low + high) / 2
