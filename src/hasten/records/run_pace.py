"""How long a run's steps should take, and when that is checked."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class TunedPace:
    """How long the plan's steps took in the tune: the median of fresh processes. Of runs that are as fast,
    one in two thousand takes ``most_seconds`` a step or more by chance. ``samples`` a step, None: not
    reported by a loader; ``data_seconds`` that a step waited for them.
    """

    step_seconds: float
    most_seconds: float
    samples: float | None = None
    data_seconds: float | None = None


@dataclass(frozen=True)
class WatchedRun:
    """How a run is watched for steps that become slower. ``tuned``: None if there is nothing to compare with
    but the run's own beginning. Nothing counts before this many steps and seconds of warming up. A slowdown
    counts once it has lasted, and is certain after lasting twice as long.
    """

    tuned: TunedPace | None = None
    warmup_steps: int = 30
    warmup_seconds: float = 5.0
    block_seconds: float = 1.0  # length of a block of steps
    lasting_seconds: float = 30.0
