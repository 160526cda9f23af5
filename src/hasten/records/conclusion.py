"""What a tune concluded, and what it could not tell: codes and facts, which ``report`` puts into words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from .run_forecast import RunForecast
from .verdict import Shortfall


@dataclass(frozen=True)
class Resolution:
    """Gains of ``percent`` are found in four of five cases, smaller ones less often: by this many ``pairs``
    of a confirmation or, if None, by the noisiest comparison of a search. Under ``budget`` it would be
    ``finer`` percent; both are None if no budget finds less, or none can be named.
    """

    percent: int
    pairs: int | None = None
    finer: int | None = None
    budget: float | None = None


@dataclass(frozen=True)
class Unsure:
    """A gain that ``pairs`` pairs found is not claimed: processes under the plan are slow, or may be."""

    speedup: float
    pairs: int
    seen: int  # processes under the plan
    slow: int  # of these
    slower: float  # how much longer a slow one may take, as a share
    budget: float | None = None  # a budget that would start enough of them
    hopeless: bool = False  # no budget is enough


@dataclass(frozen=True)
class Looks:
    """Processes under the plan that were started in addition to the pairs."""

    count: int
    slow: int  # of these


Code = Literal[
    "confirmed",
    "noise",
    "unsure",
    "slower",
    "failed",
    "not held",
    "not checked",
    "not seen",
    "no time",
    "nothing faster",
    "nothing applies",
    "longer run",
    "refused",
]


@dataclass(frozen=True)
class Conclusion:
    """Why a tune claims a gain, or none. ``code``:

    "confirmed": in fresh processes. "noise": what looked faster may be noise; ``resolution`` says what would
    have been found. "unsure": as ``unsure`` says. "slower", "failed": the plan, in fresh processes. "not
    held", "not checked", "not seen": accuracy. "no time": to try anything. "nothing faster" of what was
    tried; ``resolution`` says what was not found. "nothing applies": here. "longer run": steps are
    faster, and a whole run is not, as ``run`` says. "refused": the script.
    """

    code: Code
    text: str = ""  # the error if the plan "failed", or why the script was "refused"
    resolution: Resolution | None = None
    unsure: Unsure | None = None
    short: Shortfall | None = None  # where the search ended long before the budget
    run: RunForecast | None = None
