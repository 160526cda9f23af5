"""What is known of a training and of machines, and a prediction for more of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Range:
    """A number that is known between two bounds; ``mid`` is the one to plan with."""

    low: float
    mid: float
    high: float

    @classmethod
    def exactly(cls, value: float) -> Range:
        return cls(value, value, value)


@dataclass(frozen=True)
class Link:
    """What connects two workers: seconds for the first byte, one way, and bytes a second after it."""

    latency_seconds: float
    bytes_per_second: float


@dataclass(frozen=True)
class Line:
    """A step takes ``fixed_seconds``, and ``sample_seconds`` for each of its samples."""

    fixed_seconds: float
    sample_seconds: float

    def seconds(self, samples: float) -> float:
        return self.fixed_seconds + self.sample_seconds * samples


@dataclass(frozen=True)
class StepCost:
    """What a step of one worker takes by its samples: ``low`` and ``high`` are bounds.

    ``measured``: the step's median in seconds by samples a step, which these were fitted to. ``spread``:
    steps of the script's own batch size as multiples of their median. ``backward_share``: of a step, 0 to 1.
    """

    low: Line
    mid: Line
    high: Line
    backward_share: float
    spread: tuple[float, ...]
    measured: tuple[tuple[int, float], ...] = ()

    def seconds(self, samples: float) -> Range:
        return Range(*(line.seconds(samples) for line in (self.low, self.mid, self.high)))


@dataclass(frozen=True)
class Workload:
    """A training as it is scaled. ``bucket_bytes``: gradients are reduced in pieces of at most so many, and
    the first of at most ``first_bucket_bytes``, as by DistributedDataParallel and hasten's ranks.
    ``backend``: "gloo", or "nccl", which reduces one after another.
    """

    step: StepCost
    batch: int  # samples of a step, of all workers together
    gradient_bytes: int
    epoch_samples: int | None = None
    bucket_bytes: int = 25 * 2**20
    first_bucket_bytes: int = 2**20
    backend: Literal["gloo", "nccl"] = "gloo"


@dataclass(frozen=True)
class Cluster:
    """The machines: ``per_host`` workers on each. ``within`` a host and ``between`` hosts.

    ``host_failure_seconds``: mean time between failures of one host, None for never. A failure costs half of
    ``checkpoint_seconds``, the time between checkpoints, and ``restart_seconds``. ``host_hour_price``: in any
    currency.
    """

    per_host: int
    within: Link
    between: Link
    host_failure_seconds: float | None = None
    checkpoint_seconds: float = 600.0
    restart_seconds: float = 120.0
    host_hour_price: float | None = None


@dataclass(frozen=True)
class Scaled:
    """The training on ``workers``, each with ``samples_each`` of a step's samples at most.

    ``efficiency``: speed over that of one worker times ``workers``. ``availability``: the part of the time
    that is not lost to failures.
    """

    workers: int
    hosts: int
    samples_each: int
    step_seconds: Range
    communication_seconds: Range  # of a step, that no backward pass hides
    waiting_seconds: Range  # of a step, for the slowest worker
    availability: float
    samples_per_second: Range
    efficiency: Range
    epoch_seconds: Range | None = None
    epoch_price: Range | None = None


@dataclass(frozen=True)
class ScalingForecast:
    """``same``: with the script's own global batch, the same training. ``grown``: with a batch for each
    worker as large as the script's, which is another training. ``pays_up_to``: so many workers, of which
    twice as many train less than 1.1 times as fast; the most that were looked at if there is no such number.
    """

    workload: Workload
    cluster: Cluster
    same: Sequence[Scaled]
    grown: Sequence[Scaled]
    pays_up_to: int
