"""What a run's first steps took, and how much its blocks of steps differ by chance."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from ...records.run_pace import TunedPace
from .step_blocks import Block, Kind

_LEAST_NOISE = 0.01
_FEW_BLOCKS = 1.3  # the true spread may be this many times that of so few blocks
_RARE = 0.05  # of the steps: rarer kinds are not compared
_COMPARED = 0.5  # of a block's steps, at least
_SAME_SAMPLES = 0.01


@dataclass(frozen=True)
class Reference:
    """What steps of the usual kinds took at first."""

    seconds: dict[Kind, float]
    level: float  # mean seconds of these kinds, without those with turns of epochs
    samples: float  # per step of these
    noise: float  # standard deviation of a block's logarithm

    def log_ratio(self, block: Block) -> float | None:
        """The log of a block's time over the reference; None if too few of its steps can be compared."""
        known = [kind for kind in block.seconds if kind in self.seconds]
        count = sum(block.counts[kind] for kind in known)
        if count < _COMPARED * sum(block.counts.values()):
            return None
        times = (block.counts[kind] * math.log(block.seconds[kind] / self.seconds[kind]) for kind in known)
        return sum(times) / count


def reference_of(blocks: Sequence[Block]) -> Reference | None:
    """The reference of these blocks; None if no kind of step is frequent enough, as with ever new batch
    sizes.
    """
    counts: Counter[Kind] = Counter()
    for block in blocks:
        counts.update(block.counts)
    steps = sum(counts.values())
    usual = {kind: count for kind, count in counts.items() if count >= _RARE * steps}
    compared = sum(usual.values())
    if compared < _COMPARED * steps:
        return None
    seconds = {kind: median(b.seconds[kind] for b in blocks if kind in b.seconds) for kind in usual}
    if min(seconds.values()) <= 0:
        return None
    plain = _without_turns(usual)
    level = sum(seconds[kind] * count for kind, count in plain.items()) / sum(plain.values())
    samples = sum(kind[3] * count for kind, count in plain.items()) / sum(plain.values())
    bare = Reference(seconds, level, samples, 0.0)
    found = [ratio for block in blocks if (ratio := bare.log_ratio(block)) is not None]
    return Reference(seconds, level, samples, noise_of(found))


def _without_turns(usual: dict[Kind, int]) -> dict[Kind, int]:
    """If epochs are short, many steps contain an evaluation or the turn of an epoch."""
    least = min(kind[5:] for kind in usual)
    return {kind: count for kind, count in usual.items() if kind[5:] == least}


def noise_of(log_ratios: Sequence[float]) -> float:
    """Their standard deviation, from the median: a few disturbed ones do not count."""
    middle = median(log_ratios)
    spread = 1.4826 * median(abs(ratio - middle) for ratio in log_ratios)
    return max(_LEAST_NOISE, _FEW_BLOCKS * spread)


def comparable(reference: Reference, tuned: TunedPace) -> bool:
    """Whether steps train on as many samples as when the plan was tuned, in similar batches."""
    alike = Counter(kind[:4] + kind[5:] for kind in reference.seconds)
    if max(alike.values()) > 1:
        return False
    return tuned.samples is None or abs(reference.samples / tuned.samples - 1) <= _SAME_SAMPLES


def without_trend(values: Sequence[float]) -> list[float]:
    """The residuals from a line through the medians of their first and last thirds."""
    third = len(values) // 3
    rise = median(values[-third:]) - median(values[:third])
    each = rise / (len(values) - third)
    return [value - each * at for at, value in enumerate(values)]
