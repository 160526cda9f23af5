"""What a plan means for a whole run: what a person waits for, before and under it."""

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
    """What one process of a confirmation has told. ``start_seconds``: from its beginning to its first step's
    end, set-up of techniques left out; ``step_seconds``: the mean of its timed steps, ``uneven`` times their
    median. ``lead_seconds``: by which the steps after the first one and before those took longer, set-up left
    out: caches fill, kernels are chosen. Below 0 where they were faster. ``steps``: that it took in all.
    ``samples``: of its usual step, and ``data_seconds`` that this waits for them; None where nothing told.
    """

    start_seconds: float
    step_seconds: float
    setup_seconds: float = 0.0
    lead_seconds: float = 0.0
    uneven: float = 1.0
    steps: int = 0
    samples: float | None = None
    data_seconds: float | None = None


@dataclass(frozen=True)
class RunLength:
    """How long a run with these arguments is. ``steps`` in all and ``epoch_steps`` in each epoch, None where
    not known. ``source`` of what is known: "seen" to the script's end, or the "loader".
    """

    steps: int | None = None
    epoch_steps: int | None = None
    source: Literal["", "seen", "loader"] = ""

    @property
    def epochs(self) -> int | None:
        """None where it is not a whole number of them."""
        if not self.steps or not self.epoch_steps or self.steps % self.epoch_steps:
            return None
        return self.steps // self.epoch_steps


PartName = Literal["hasten", "start", "steps", "epoch ends", "tail", "set-up"]
"""Parts of a run. "hasten": its own command, before the script starts. "start": to steady steps. "epoch
ends": what comes between steps, in mid-epoch or between two epochs: evaluation, saving, the wait for a first
batch. "tail": what comes after the last step: a last evaluation, saving, the end of the process.
"""

Assumed = Literal[
    "length by loader", "ends unseen", "ends seen once", "ends as plain", "ends of other plans", "rehearsed",
    "epochs cut short",
]  # fmt: skip
"""What a forecast takes for granted:

"length by loader": an epoch is what its loader holds. "ends unseen": nothing came between epochs while it was
watched; what may come is not in the numbers. "ends seen once": what comes between epochs takes as long each
time. "ends as plain": it takes as long under the plan, where no process was seen to have a second. "ends of
other plans": it was timed under other plans than those it is told of. "rehearsed": that the ranks of the plan
were, as the first run under it does. "epochs cut short": what comes between epochs was timed in short ones,
and takes as many times longer as they are shorter.
"""


@dataclass(frozen=True)
class ForecastPart:
    """Seconds of a part, plain and under the plan."""

    name: PartName
    before: Span
    after: Span


@dataclass(frozen=True)
class RunForecast:
    """What a run takes plain (``before``) and under the plan (``after``), with what that ``saved``. ``of``: a
    whole "run", an "epoch" where the number of epochs is not known, or "steps" where that of an epoch is not
    either; it has ``steps`` of them. An epoch and steps have no start and no set-up: these come ``once`` in a
    run, and are told besides.

    ``pays_runs``: the runs after which the tune has paid; ``pays_epochs``, ``pays_steps``: how long a single
    run must be for that. None where it never does, or where that is not known.
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
    slower_start: float = 0.0  # seconds by which processes under the plan start later, where that is sure
    lasting_seconds: float = 0.0  # of the set-up, that later runs on this machine do not pay again
    assumed: tuple[Assumed, ...] = ()

    @property
    def is_faster(self) -> bool:
        """Whether the interval of what is saved excludes that nothing is."""
        return self.saved.low > 0
