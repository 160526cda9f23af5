"""The bench for a real script: live where the two plans can share a process, by pairs of processes where
not.
"""

from __future__ import annotations

from ..records.plan import Plan
from ..records.trial import Trial
from .base import process_part
from .live import LiveBench
from .pairs import PairsBench
from .stage import Stage
from .statistics import interval
from .steps import Rhythm

SEARCH_PAIRS = 5
_LEAST_PAIRS = 3


class ScriptBench:
    """What the search and the confirmation measure with. Use as a context: no worker outlives it."""

    def __init__(self, stage: Stage, rhythm: Rhythm) -> None:
        self.live = LiveBench(stage, rhythm)
        self.pairs = PairsBench(stage, rhythm)

    def __enter__(self) -> ScriptBench:
        return self

    def __exit__(self, *_: object) -> None:
        self.live.close()

    def compare(self, a: Plan, b: Plan, seconds: float) -> Trial:
        """For the search: as many measurements as the decision needs, at most about ``seconds``."""
        if process_part(a) == process_part(b):
            return self.live.compare(a, b, seconds)
        self.live.close()
        affordable = int(seconds / self.pairs.pair_seconds) if self.pairs.pair_seconds else SEARCH_PAIRS
        return self.pairs.compare(a, b, max(_LEAST_PAIRS, min(SEARCH_PAIRS, affordable)), enough=_clear)

    def confirm(self, plan: Plan, pairs: int) -> Trial:
        """For the claim: a number of pairs fixed beforehand, baseline against ``plan``, nothing else in
        mind.
        """
        self.live.close()
        return self.pairs.compare(Plan(), plan, pairs)


def _clear(log_ratios: list[float]) -> bool:
    """Whether the search need not wait for more pairs: the interval excludes 1, or both of two say slower."""
    ratio = interval(log_ratios, "pairs")
    if ratio is None:
        return False
    return ratio.high < 0.97 or ratio.low > 1.0 or min(log_ratios) > 0.05
