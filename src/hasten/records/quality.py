"""Whole trainings, how good their models became, and the verdict on a plan's quality."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from .caution import Caution
from .plan import BASELINE, Plan
from .trial import Ratio


@dataclass(frozen=True)
class Point:
    """One value of a metric. ``seconds`` since the start of the process; ``step``: steps done by then."""

    value: float
    seconds: float
    step: int


@dataclass(frozen=True)
class MetricValue:
    """A value the script reported; ``seconds`` by ``time.monotonic()``, ``step``: steps done by then."""

    name: str
    value: float
    seconds: float
    step: int


@dataclass(frozen=True)
class RunSummary:
    """The summary of a whole training, which runs without requests. ``step_ends`` by ``time.monotonic()``,
    one clock for all processes of a machine; ``losses`` of the last step that had any; ``remarks`` are what
    ``hasten run`` would say; ``worked``: techniques that had an effect, None if not checked.
    """

    step_ends: tuple[float, ...] = ()
    metrics: tuple[MetricValue, ...] = ()
    losses: tuple[float, ...] = ()
    remarks: tuple[str, ...] = ()
    worked: tuple[str, ...] | None = None


@dataclass(frozen=True)
class WholeRun:
    """One training from start to end. ``courses``: all values of each metric, in the order they came."""

    arm: str  # "baseline" or "plan"
    seed: int
    seconds: float  # from the start of the process to its end
    steps: int = 0
    courses: Mapping[str, tuple[Point, ...]] = field(default_factory=dict)
    losses: tuple[float, ...] = ()  # of the last step
    remarks: tuple[str, ...] = ()  # what hasten run would say: techniques left out, or without effect
    worked: tuple[str, ...] | None = None  # techniques that had an effect; None if not checked
    last_line: str = ""  # the last line the script printed
    failure: str = ""  # why this training cannot be judged


@dataclass(frozen=True)
class Metric:
    """What quality is. ``pattern`` finds it in the script's output; "" if the script reports it."""

    name: str
    lower_is_better: bool = False
    pattern: str = ""


@dataclass(frozen=True)
class Tolerance:
    """How much worse quality may be: ``amount``, or with ``relative`` that share of the baseline's."""

    amount: float = 0.005
    relative: bool = True

    def of(self, value: float) -> float:
        """The tolerance in the metric's own units, if the baseline has ``value``."""
        return self.amount * abs(value) if self.relative else self.amount


@dataclass(frozen=True)
class Interval:
    """A mean with its 95% interval over ``count`` independent values."""

    value: float
    low: float
    high: float
    count: int


@dataclass(frozen=True)
class Reached:
    """When each run first reached ``quality``; None if it never did. One entry per seed.

    The ratios, the plan's over the baseline's, are over the seeds where both arms reached it.
    """

    quality: float
    baseline: tuple[Point | None, ...]
    plan: tuple[Point | None, ...]
    seconds: Ratio | None
    steps: Ratio | None


@dataclass(frozen=True)
class QualityVerdict:
    """What ``hasten verify`` found. ``reason`` is set if the numbers alone do not explain it."""

    outcome: str  # "held", "lost", "cannot tell", "failed"
    reason: str
    metric: Metric
    runs: tuple[WholeRun, ...]  # in the order they were trained
    tolerance: Tolerance
    allowed: float | None = None  # the tolerance in the metric's own units
    baseline: float | None = None  # mean of the baseline's final values
    difference: Interval | None = None  # plan minus baseline, paired over seeds
    seeds_enough: int | None = None  # number of seeds that would probably settle it
    wall: Ratio | None = None  # the plan's whole run over the baseline's, in seconds
    reached: Reached | None = None
    plan: Plan = BASELINE
    remarks: tuple[str, ...] = ()
    protection: str = ""  # as in TuneResult
    warnings: tuple[Caution, ...] = ()
    folder: str = ""  # where the runs' output is
    machine: str = ""
