"""What a tune came to, and what it could not tell: codes, with the facts that ``report`` makes words of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from .verdict import Shortfall


@dataclass(frozen=True)
class Resolution:
    """Gains of ``percent`` are found in four of five cases, smaller ones less often: by so many ``pairs`` of
    a confirmation, or (None) by the least steady comparison of a search. Under ``budget`` it would be
    ``finer`` percent; both None where no budget finds less, or none can be named.
    """

    percent: int
    pairs: int | None = None
    finer: int | None = None
    budget: float | None = None


@dataclass(frozen=True)
class Unsure:
    """A gain that ``pairs`` pairs found is not claimed, since processes of the plan are slow, or may be."""

    speedup: float
    pairs: int
    seen: int  # processes of the plan
    slow: int  # of these
    slower: float  # what a slow one may take longer, as a share
    budget: float | None = None  # that would start enough of them
    hopeless: bool = False  # no budget does


@dataclass(frozen=True)
class Looks:
    """Processes of the plan that were started besides the pairs."""

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
    "refused",
]


@dataclass(frozen=True)
class Conclusion:
    """Why a tune claims a gain, or none. ``code``:

    "confirmed": it is, in fresh processes. "noise": what looked faster may be that; ``resolution`` says what
    would have been found. "unsure": as ``unsure`` says. "slower", "failed": the plan, in fresh processes.
    "not held", "not checked", "not seen": accuracy. "no time": to try anything. "nothing faster" of what was
    tried, where ``resolution`` says what was not found; "nothing applies" here. "refused": the script.
    """

    code: Code
    text: str = ""  # the error where the plan "failed", or why the script was "refused"
    resolution: Resolution | None = None
    unsure: Unsure | None = None
    short: Shortfall | None = None  # where the search ended long before the budget
