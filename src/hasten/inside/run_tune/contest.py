"""Two plans compared in a running training, by ABBA blocks: which one wins, with as few blocks as possible.

It steers a run and claims nothing. What is clearly slower is dropped after one comparison; a gain must be
clear at 95%, and no less than 1%.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean, median, stdev
from typing import Literal

from ...records.thresholds import CLEAR_BELOW, KEEP_BELOW, SLOWER_ABOVE
from ..observing.raw_step import RawStep

Verdict = Literal["", "faster", "no gain", "slower"]

A, B = False, True
_ORDERS = ((A, B, B, A), (B, A, A, B))
_LEAST, _MOST = 4, 10  # ABBA blocks
_DROPPED_AFTER_ONE = math.log(1.3)
_T95 = (12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26)  # Student's t by degrees of freedom, from 1


class Contest:
    """Collects the times of blocks, which run in the order of ``next_is_b``, until one plan wins."""

    def __init__(self) -> None:
        self._log_ratios: list[float] = []
        self._logs: list[float] = []  # of the ABBA block at hand
        self._void = 0

    @property
    def next_is_b(self) -> bool:
        return _ORDERS[len(self._log_ratios) % 2][len(self._logs)]

    def block(self, seconds: float | None) -> Verdict:
        """``seconds``: a step of the block that ended; None if that is not known, which restarts its ABBA
        block. Returns the verdict, "" if more blocks are needed.
        """
        if seconds is None:
            self._logs.clear()
            self._void += 1
            return "no gain" if self._void >= _MOST else ""
        self._logs.append(math.log(seconds))
        if len(self._logs) < len(_ORDERS[0]):
            return ""
        order = _ORDERS[len(self._log_ratios) % 2]
        signed = (log if is_b else -log for log, is_b in zip(self._logs, order, strict=True))
        self._log_ratios.append(sum(signed) / 2)
        self._logs.clear()
        return verdict_on(self._log_ratios)

    @property
    def compared(self) -> bool:
        """Whether there is a whole ABBA block."""
        return bool(self._log_ratios)

    @property
    def ratio(self) -> float:
        """b's time over a's, as far as is known."""
        return math.exp(fmean(self._log_ratios)) if self._log_ratios else 1.0

    @property
    def looks_faster(self) -> bool:
        return self.ratio < CLEAR_BELOW


def verdict_on(log_ratios: Sequence[float]) -> Verdict:
    """The verdict on these ABBA blocks; "" if more are needed."""
    count = len(log_ratios)
    if max(log_ratios[:1]) > _DROPPED_AFTER_ONE or (count > 1 and min(log_ratios) > SLOWER_ABOVE):
        return "slower"
    if count < _LEAST:
        return ""
    middle = fmean(log_ratios)
    half = _T95[min(count - 2, len(_T95) - 1)] * stdev(log_ratios) / math.sqrt(count)
    if middle + half < math.log(CLEAR_BELOW if count < _MOST else KEEP_BELOW):
        return "faster"
    if middle - half > 0.0:
        return "slower"
    return "no gain" if middle - half > math.log(KEEP_BELOW) or count >= _MOST else ""


def step_seconds(steps: Sequence[RawStep], cycle: int, usual: tuple[int, int]) -> float | None:
    """Seconds of a step of this block: the mean wait for data and, of what else its cycles took, the median.
    Only cycles count whose steps have the ``usual`` number of evaluations and loaders' beginnings, and no
    set-up. None if fewer than two are left.
    """
    whole = [steps[at : at + cycle] for at in range(0, len(steps) - cycle + 1, cycle)]
    regular = [
        one
        for one in whole
        if all((s.evaluations, s.restarts) == usual and not s.set_up and not s.new_model for s in one)
    ]
    if len(regular) < 2:
        return None
    waits = [sum(step.data for step in one) / cycle for one in regular]
    others = [sum(step.seconds - step.data for step in one) / cycle for one in regular]
    return max(1e-9, fmean(waits) + median(others))
