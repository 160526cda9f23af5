"""How long a step waits for the slowest of many workers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist, fmean, stdev

from ..records.scaling import Range

_BLOM = 0.375


def slowest(spread: Sequence[float], workers: int) -> Range:
    """The expected step of the slowest of ``workers``, as a multiple of a usual step. ``spread``: steps that
    were measured, as multiples of their median.

    The low end takes the steps that were seen for all there are; so it never exceeds the slowest of them.
    The high end takes their logarithms for normal, and so goes on where nothing was seen.
    Source: Blom's approximation of normal order statistics (1958).
    """
    if len(spread) < 2:
        return Range.exactly(spread[0] if spread else 1.0)
    seen = _of_those_seen(sorted(spread), workers)
    logs = [math.log(value) for value in spread]
    rank = (workers - _BLOM) / (workers + 1 - 2 * _BLOM)
    beyond = math.exp(fmean(logs) + stdev(logs) * NormalDist().inv_cdf(rank))
    low, high = min(seen, beyond), max(seen, beyond)
    return Range(low, (low + high) / 2, high)


def _of_those_seen(ordered: Sequence[float], workers: int) -> float:
    """The mean of the largest of ``workers`` that are drawn from ``ordered``."""
    count = len(ordered)
    chances = [(n / count) ** workers for n in range(count + 1)]
    return sum(value * (chances[n + 1] - chances[n]) for n, value in enumerate(ordered))
