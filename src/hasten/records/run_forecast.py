"""What a plan means for a whole run: how long a person waits, without and with it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Span:
    """Seconds. ``low`` to ``high`` is the 95% interval for one run."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class SeenProcess:
    """What one process of a confirmation reported. ``start_seconds``: from its start to its first step's end,
    without techniques' set-up; ``step_seconds``: the mean of its timed steps, ``uneven`` times the usual one.
    ``lead_seconds``: how much longer the steps between the first and those took, without set-up: caches fill,
    kernels are chosen; and what came once. Below 0 if they were faster. ``steps``: taken in all. ``samples``
    of its usual step, and ``data_seconds`` that this waits for them; None if unknown. ``shared_seconds``: the
    part of its set-up that other processes of the tune are spared, and runs are not. ``own_seconds``: of its
    start, what hasten's own modules took before the script began.
    """

    start_seconds: float
    step_seconds: float
    setup_seconds: float = 0.0
    lead_seconds: float = 0.0
    uneven: float = 1.0
    steps: int = 0
    samples: float | None = None
    data_seconds: float | None = None
    shared_seconds: float = 0.0
    own_seconds: float = 0.0

    @property
    def script_start(self) -> float:
        """What the script's start took of it; 0 if that is unknown."""
        return max(0.0, self.start_seconds - self.own_seconds)


@dataclass(frozen=True)
class RunLength:
    """How long a run with these arguments is. ``steps`` in all and ``epoch_steps`` in each epoch, None if
    not known. ``source`` of what is known: "seen" to the script's end, the "loops" around its steps, the
    "loader". ``by_epochs``: the epochs that ended tell how long one is, not its loader.
    """

    steps: int | None = None
    epoch_steps: int | None = None
    source: Literal["", "seen", "loops", "loader"] = ""
    by_epochs: bool = False

    @property
    def epochs(self) -> int | None:
        """The number of epochs; None if it is not a whole number."""
        if not self.steps or not self.epoch_steps or self.steps % self.epoch_steps:
            return None
        return self.steps // self.epoch_steps


PartName = Literal["hasten", "start", "steps", "later steps", "epoch ends", "rollouts", "tail", "set-up"]
"""Parts of a run. "hasten": what it takes for itself before the script begins. "start": to steady steps.
"later steps": what these take longer than the first hundreds, for which "steps" stands. "epoch ends": what
comes between steps, within an epoch or between two: evaluation, saving, the wait for a first batch.
"rollouts": the same of a training without epochs, which may collect there what it trains on. "tail": what
comes after the last step: a last evaluation, saving, the end of the process.
"""

Assumed = Literal[
    "length by loader", "length by epochs", "length by loops", "tail unseen", "ends unseen", "rare unseen",
    "ends seen once", "ends as plain", "ends of other plans", "rehearsed", "epochs cut short", "same samples",
]  # fmt: skip
"""What a forecast assumes:

"length by loader": an epoch is one pass over its loader. "length by epochs": all of them have as many steps
as those that ended. "length by loops": training goes on to the end of the loops around its steps, and no
other follows. "tail unseen": no process came to the last step; what follows it is not in the numbers. "ends
unseen": nothing came between epochs while it was watched; what may come is not in the numbers. "rare
unseen": the same of a training without epochs. "ends seen once": what comes between epochs takes as long
each time. "ends as plain": it takes as long under the plan, where no process was seen to do it twice. "ends
of other plans": it was timed under other plans than this one. "rehearsed": the plan's ranks were rehearsed,
which the first run under it does. "epochs cut short": what comes between epochs was timed in short ones, and
takes as many times longer as they are shorter. "same samples": the script does not change, between two
epochs, what its samples are made from; no second epoch was seen.
"""


@dataclass(frozen=True)
class ForecastPart:
    """Seconds of a part, plain and under the plan."""

    name: PartName
    before: Span
    after: Span


@dataclass(frozen=True)
class RunForecast:
    """What a run takes plain (``before``) and under the plan (``after``), and what that ``saved``. ``of``: a
    whole "run", an "epoch" if the number of epochs is not known, or "steps" if the length of an epoch is not
    known either; it has ``steps`` of them. An epoch and steps have no start and no set-up: these come
    ``once`` per run, and are reported separately.

    ``pays_runs``: the runs after which the tune has paid off; ``pays_epochs``, ``pays_steps``: how long a
    single run must be for that. None if it never does, or if that is not known.
    """

    of: Literal["run", "epoch", "steps"]
    steps: int
    before: Span
    after: Span
    saved: Span
    parts: tuple[ForecastPart, ...]
    once: tuple[ForecastPart, ...] = ()
    epochs: int | None = None
    pays_runs: int | None = None
    pays_epochs: int | None = None
    pays_steps: int | None = None
    slower_start: float = 0.0  # how much later processes under the plan start, if that is certain
    lasting_seconds: float = 0.0  # part of the set-up that later runs on this machine do not pay again
    assumed: tuple[Assumed, ...] = ()

    @property
    def is_faster(self) -> bool:
        """Whether the interval of the saving excludes zero."""
        return self.saved.low > 0

    @property
    def is_slower(self) -> bool:
        """Whether all of that interval is below zero."""
        return self.saved.high < 0
