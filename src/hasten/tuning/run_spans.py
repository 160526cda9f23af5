"""Seconds of one run with their interval: arithmetic on them, and the range of one more draw.

Intervals are for a single run, not for the mean of many: how far runs lie from each other counts in full,
however well their mean is known.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean, stdev, variance

from ..bench.comparing.statistics import t_quantile
from ..records.run_forecast import Span

CONFIDENCE = 0.95
SEEN_ONCE = 0.25  # of a time seen once: how far another process's may be from it
_AS_IF = 3  # degrees of freedom that this counts for, in addition to what was seen
NOTHING = Span(0.0, 0.0, 0.0)


def of_one(logs: Sequence[float]) -> float:
    """How far one more may lie from the mean of these."""
    count = len(logs)
    return t_quantile(CONFIDENCE, count - 1) * stdev(logs) * math.sqrt(1 + 1 / count)


def around(value: float, half: float) -> Span:
    """``half`` of the interval, as a logarithm."""
    return Span(value, value * math.exp(-half), value * math.exp(half))


def plus_minus(value: float, half: float) -> Span:
    return Span(value, value - half, value + half)


def several(processes: Sequence[Sequence[float]], times: float) -> Span:
    """This many draws in one more process, together. ``processes``: draws of each seen one, none empty.

    Processes differ, and so do draws within one. What makes a process slow is in all of its draws: that
    variance counts with the square of their number, the variance within a process only with their number. Few
    processes say little about how much they differ; so ``SEEN_ONCE`` counts as if some more had been seen.
    """
    means = [fmean(draws) for draws in processes]
    mean, count = fmean(means), len(means)
    within = _within(processes)
    seen = (count - 1) * variance(means) if count > 1 else 0.0
    degrees = _AS_IF + count - 1
    of_means = (_AS_IF * _usual(mean) ** 2 + seen) / degrees
    between = max(0.0, of_means - within * fmean(1 / len(draws) for draws in processes))
    spread = math.sqrt(between + within / times + of_means / count)
    return plus_minus(times * mean, times * t_quantile(CONFIDENCE, degrees) * spread)


def _usual(mean: float) -> float:
    """The standard deviation that makes ``SEEN_ONCE`` of what was seen once."""
    return SEEN_ONCE * mean / (t_quantile(CONFIDENCE, _AS_IF) * math.sqrt(2))


def _within(processes: Sequence[Sequence[float]]) -> float:
    """The variance within a process; 0 if none was seen to have two."""
    degrees = sum(len(draws) - 1 for draws in processes)
    squares = sum((len(draws) - 1) * variance(draws) for draws in processes if len(draws) > 1)
    return squares / degrees if degrees else 0.0


# ---- together
def independent(spans: Sequence[Span]) -> Span:
    """The sum of independent errors: the squares of half-widths add up."""
    value = sum(span.value for span in spans)
    low = math.hypot(*(span.value - span.low for span in spans))
    high = math.hypot(*(span.high - span.value for span in spans))
    return Span(value, value - low, value + high)


def together(spans: Sequence[Span]) -> Span:
    """The sum of what is slow or fast at the same time."""
    return Span(*(sum(ends) for ends in zip(*((s.value, s.low, s.high) for s in spans), strict=True)))


def less(a: Span, b: Span) -> Span:
    """a - b, of two runs."""
    return independent([a, Span(-b.value, -b.high, -b.low)])


def not_below_nothing(span: Span) -> Span:
    return Span(*(max(0.0, one) for one in (span.value, span.low, span.high)))
