"""Why a technique is kept, not kept or not tried: codes and facts, which ``report`` puts into words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from .plan import BASELINE, Plan, Settings
from .trial import Unseen
from .verdict import GuardVerdict

Found = Literal["", "gain", "no gain", "slower", "not measured", "failed"]
Decision = Literal[
    "",  # only what was found
    "settings replaced",  # it is a gain over other settings of the technique
    "settings stay",  # it is not
    "earned",  # kept, in combination with the others
    "not kept",
    "likely",  # kept, though there were too few pairs to be sure
    "undecided",  # kept, because the comparison was not conclusive
    "again",  # techniques tried as one, not kept: tried again without some of them
    "singly",  # tried again one by one
    "none singly",
    "did not apply",  # in the accuracy check
    "not checked",
    "not held",
    "left out",  # the plan was confirmed without it, and not with it
    "too small",  # a gain, but not a clear one, and its set-up is slow
    "uncertain",  # a gain, but not one that is certain enough for a claim
    "too late",  # its set-up takes too long to check and confirm it within the budget
]


@dataclass(frozen=True)
class SetUp:
    """The one-time cost of putting a plan in force."""

    seconds: float
    breakeven_steps: int | None = None  # after which it has paid off; None if the gain never pays for it
    script_steps: int | None = None  # after which the script ends, if that is sooner
    slower_start: float = 0.0  # part of ``seconds``: each process takes longer to its first step


@dataclass(frozen=True)
class Reason:
    """Why a row of the search came out as it did: what its comparison found, and what was decided."""

    found: Found = ""  # "" if nothing was compared
    decision: Decision = ""
    failure: str = ""  # the error that failed a comparison
    resolution: int | None = None  # percent: the comparison could not detect smaller gains; None: not known
    set_up: SetUp | None = None  # if it is worth mentioning
    remarks: tuple[str, ...] = ()  # of the techniques on their effect
    names: tuple[str, ...] = ()  # techniques that were tried as one
    along: Plan = BASELINE  # what was tried along with the technique
    parts: tuple[str, ...] = ()  # for which whole stretches of a run were compared
    late: int = 0  # the first step of those that were compared, where there is nothing to gain before
    guard: GuardVerdict | None = None  # the verdict that removed it
    budget: float | None = None  # a budget that would keep what is "too late"; None if none can be named


@dataclass(frozen=True)
class WhyNot:
    """Why a technique was not tried, or not judged. ``code``:

    "said": ``text``, in the technique's own words, or what rules it out. "by name": ``text``, why it is only
    tried where it is asked for. "only the start": it shortens nothing else, and nothing else was found. "not
    named": others were. "excluded": ``text``, by what is in the plan. "risk": its ``risk`` here is above the
    ``allowed`` one. "no time": the budget ended before it, or its settings that are ``untried``, could be
    tried. "no time in combination": it is kept, and the budget ended before it could be measured in
    combination with the others. "before the start": it is kept, as it was measured before the start was
    shortened, which may change what it gains.

    For techniques that shorten some phases of a step: "small phases": all ``parts`` of it together take this
    ``share`` of a run, so that with what they bring along it cannot gain more than ``bound``.

    For techniques that shorten other ``parts`` of a run than its steps: "small part": these take at most this
    ``share`` of it. "not worth a look": they take about this, which is too little to wait until they occur
    twice. "not seen": they did not occur often enough, as ``unseen`` says. "no time for stretches": they did,
    and comparing takes longer than the time left. ``budget``: one that would be enough to try it;
    None if none can be named.
    """

    code: Literal[
        "said", "by name", "only the start", "not named", "excluded", "risk",
        "no time", "no time in combination", "before the start", "small part", "small phases",
        "not worth a look", "not seen", "no time for stretches",
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
