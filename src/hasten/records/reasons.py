"""Why a technique is kept, not kept or not tried: codes, with the facts that ``report`` makes words of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from .plan import BASELINE, Plan, Settings
from .trial import Unseen
from .verdict import GuardVerdict

Found = Literal["", "gain", "no gain", "slower", "not measured", "failed"]
Decision = Literal[
    "",  # nothing but what was found
    "settings replaced",  # it is a gain over other settings of the technique
    "settings stay",  # it is none
    "earned",  # kept, in combination with the others
    "not kept",
    "likely",  # kept, though few pairs cannot be sure
    "undecided",  # kept, as the comparison cannot tell
    "again",  # techniques that were tried as one, not kept: the same without some of them
    "singly",  # each of them
    "none singly",
    "did not apply",  # where accuracy was checked
    "not checked",
    "not held",
    "left out",  # as the plan with it was not confirmed, and without it was
    "too late",  # it takes so long to set up that its end would not fit into the budget
]


@dataclass(frozen=True)
class SetUp:
    """What it took, once, to put a plan in force."""

    seconds: float
    breakeven_steps: int | None = None  # after which it has paid; None where nothing gained pays for it
    script_steps: int | None = None  # after which the script ends, where that is sooner


@dataclass(frozen=True)
class Reason:
    """Why a row of the search came out as it did: what its comparison found, and what was made of that."""

    found: Found = ""  # "" where nothing was compared
    decision: Decision = ""
    failure: str = ""  # the error by which a comparison failed
    resolution: int | None = None  # percent: smaller gains the comparison could not tell; None: not known
    set_up: SetUp | None = None  # where it is worth a word
    remarks: tuple[str, ...] = ()  # of the techniques on their effect
    names: tuple[str, ...] = ()  # techniques that were tried as one
    along: Plan = BASELINE  # what was tried along with the technique
    parts: tuple[str, ...] = ()  # for which whole stretches of a run were compared
    guard: GuardVerdict | None = None  # by which it was taken out
    budget: float | None = None  # under which what is too late could be kept; None where none can be named


@dataclass(frozen=True)
class WhyNot:
    """Why a technique was not tried, or not judged. ``code``:

    "said": ``text``, as the technique itself has it, or what rules it out. "risk": its ``risk`` here is above
    the one that is ``allowed``. "no time": the budget ended before it could be tried, or those of its
    settings that are ``untried``. "no time in combination": it is kept, and the budget ended before it could
    be judged with the others.

    Of what makes some phases of a step shorter: "small phases": all ``parts`` of it together take this
    ``share`` of a run, and what is brought along included it cannot gain more than ``bound``.

    Of what makes other ``parts`` of a run shorter than its steps: "small part": these take no more than this
    ``share`` of it. "not seen": they did not come by often enough, as ``unseen`` says. "no time for
    stretches": they did, and comparing takes longer than the time that was left. ``budget``: under
    which it would be tried; None where none can be named.
    """

    code: Literal[
        "said", "risk", "no time", "no time in combination",
        "small part", "small phases", "not seen", "no time for stretches",
    ]  # fmt: skip
    text: str = ""
    risk: str = ""
    allowed: str = ""
    untried: tuple[Settings, ...] = ()
    parts: tuple[str, ...] = ()
    share: float = 0.0
    bound: float = 0.0
    unseen: Unseen | None = None
    budget: float | None = None
