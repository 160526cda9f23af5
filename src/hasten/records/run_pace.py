"""How long a run's steps should take, and when it is looked whether they do."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class TunedPace:
    """What a plan's steps took when it was tuned: the median of fresh processes. Of runs that are as fast,
    one in two thousand takes ``most_seconds`` a step or more by chance. ``samples`` a step, None: no loader
    told; ``data_seconds`` that a step waited for them.
    """

    step_seconds: float
    most_seconds: float
    samples: float | None = None
    data_seconds: float | None = None


@dataclass(frozen=True)
class WatchedRun:
    """A run is told of steps that have become slower. ``tuned``: None where there is nothing to compare with
    but the run's own beginning. Nothing counts before so many steps and seconds of warming up. What is slow
    counts once it has lasted, and twice as long to be sure.
    """

    tuned: TunedPace | None = None
    warmup_steps: int = 30
    warmup_seconds: float = 5.0
    block_seconds: float = 1.0  # of steps that are looked at together
    lasting_seconds: float = 30.0
