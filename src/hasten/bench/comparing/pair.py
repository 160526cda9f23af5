"""The results of a pair's two processes, and how long pairs take."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median

from ...records.plan import Plan
from ...records.run_forecast import SeenProcess
from ...records.trial import Proof, Trial
from .blocks import Block
from .decisions import CLAIM_LEAST_PROCESSES, lost_at_once
from .statistics import interval

_LATEST = 3  # pairs whose median counts
_SURE = 3  # pairs that show how long a start takes
_SIDE_BY_SIDE = 1.6  # times as long as alone: the most that a start was seen to take beside another


@dataclass(frozen=True)
class Pair:
    """``lasting_seconds``: the time to make what b finds and a does not, whichever process made it.
    ``setups_seconds``: set-up of both, including that if they made it. ``contended``: disturbed blocks count
    in it, as too few others were left.
    """

    log_ratio: float
    step_seconds_a: float
    step_seconds_b: float
    sample_seconds_b: float
    proofs: tuple[Proof, ...]
    lasting_seconds: float
    setups_seconds: float
    a: SeenProcess
    b: SeenProcess
    contended: bool = False

    @property
    def setup_seconds(self) -> float:
        """Set-up that b needs and a does not, in each new process."""
        return max(0.0, self.b.setup_seconds - self.a.setup_seconds)


class PairTimes:
    """Of the latest pairs, without set-ups and repeated measurements: they predict the next."""

    def __init__(self) -> None:
        self._took: deque[float] = deque(maxlen=_LATEST)
        self._with_plain: deque[float] = deque(maxlen=_LATEST)

    def took(self, seconds: float) -> None:
        self._took.append(seconds)

    def compared(self, steps: int, plain_step_seconds: float, step_seconds_a: float) -> None:
        """Each process of the pair trained so many steps, one of them at a's pace."""
        slower = max(0.0, plain_step_seconds - step_seconds_a)
        self._with_plain.append(self._took[-1] + steps * slower)

    @property
    def usual(self) -> float | None:
        """None before the first."""
        return median(self._took) if self._took else None

    @property
    def with_plain_training(self) -> float | None:
        """If plain training had been in them: the search compares plans that are both faster."""
        return median(self._with_plain) if self._with_plain else None


def undisturbed_blocks(blocks: Mapping[Plan, Sequence[Block]]) -> Mapping[Plan, Sequence[Block]]:
    """Those that count: of both plans all, where more than half of one's were disturbed. Who used the
    processors decides it, not how long a block took.
    """
    alone = {plan: [block for block in each if not block.contended] for plan, each in blocks.items()}
    return alone if all(2 * len(alone[plan]) >= len(each) for plan, each in blocks.items()) else blocks


def undisturbed_pairs(done: Sequence[Pair]) -> Sequence[Pair]:
    """Without the disturbed ones, if enough are left for a claim."""
    alone = [pair for pair in done if not pair.contended]
    return alone if len(alone) >= CLAIM_LEAST_PROCESSES else done


def shown_by(done: Sequence[Pair], trial: Trial) -> Trial:
    """``trial`` with what the processes of its pairs showed, except for the ratio."""
    lasting = max(pair.lasting_seconds for pair in done)
    return replace(
        trial,
        step_seconds_a=median(pair.step_seconds_a for pair in done),
        step_seconds_b=median(pair.step_seconds_b for pair in done),
        setup_seconds=lasting + median(pair.setup_seconds for pair in done),
        lasting_seconds=lasting,
        slower_start=_slower_start([(pair.a.start_seconds, pair.b.start_seconds) for pair in done]),
        proofs=done[-1].proofs,
        processes_a=tuple(pair.a for pair in done),
        processes_b=tuple(pair.b for pair in done),
    )


def _slower_start(starts: Sequence[tuple[float, float]]) -> float:
    """Seconds that a start under b takes longer, at least, by the 95% interval. Processes of a pair start
    side by side, so each takes longer than alone: their ratio counts.
    """
    ratio = None
    if len(starts) >= _SURE and all(map(min, starts)):
        ratio = interval([math.log(b / a) for a, b in starts], "pairs")
    return max(0.0, ratio.low - 1) * min(a for a, _ in starts) / _SIDE_BY_SIDE if ratio is not None else 0.0


def lasting_seconds(proofs: Sequence[Proof]) -> float:
    """Lasting set-up of all techniques together."""
    return sum(proof.lasting_seconds for proof in proofs)


def why_lost_at_once(done: Sequence[Pair]) -> str:
    """Why there is no second pair, if the first was enough; "" otherwise."""
    log_ratios = [pair.log_ratio for pair in done]
    if not lost_at_once(log_ratios):
        return ""
    return f"{math.exp(log_ratios[0]):.2f} times slower in its first pair of processes, which was enough"
