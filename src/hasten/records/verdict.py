"""The guard's verdict."""

from __future__ import annotations

from dataclasses import dataclass, field

from .comparison import LossCurve, SingleSteps


@dataclass(frozen=True)
class Difference:
    """Something that two trainings must have alike, and had not; or that a training must have, and had not.

    ``what``: "steps" (how many they took: ``counts``), "batches", "modes", "rates", "optimizer", "streams",
    "samples", or "shape" (of the tensor ``name``); "losses" where some are missing, and "number" where the
    loss is none. ``step``: the first at which it differed, or was none.
    """

    what: str
    step: int | None = None
    counts: tuple[int, ...] = ()
    name: str = ""


@dataclass(frozen=True)
class Invariants:
    """What had to be equal, bit for bit, and what was not."""

    compared: tuple[str, ...] = ()
    differing: tuple[Difference, ...] = ()


@dataclass(frozen=True)
class Shortfall:
    """When a tune's end was seen not to fit into its budget: seconds ``spent`` ``of`` the budget, and those
    that are ``needed`` at least. A pair of processes took ``times`` as long as foreseen at the beginning, and
    other programs disturbed the share ``disturbed`` of the blocks of steps.
    """

    spent: float
    of: float
    needed: float
    times: float = 1.0
    disturbed: float = 0.0


@dataclass(frozen=True)
class TooLittleTime:
    """The budget did not suffice to check ``techniques``, and then to confirm them; ``enough`` seconds would
    do. Without techniques: what was faster was checked, and could not be confirmed.
    """

    enough: int
    techniques: tuple[str, ...] = ()
    seen: Shortfall | None = None


@dataclass(frozen=True)
class GuardVerdict:
    """Did accuracy hold? ``accuracy`` is "held", "not held", or "not checked", and then ``why_not`` says by
    one of these words why:

    "killed", "silent", "ended": one of the processes was killed, hung or ended. "script": the script failed
    in one. "refused": the technique ``refused`` did not apply. "short": the script takes too few steps.
    "unrepeatable": it trains otherwise each time, from one seed. "no losses": it shows none, or no numbers.
    "state": the state of one training could not be taken up by another. "budget": it ended before. "idle":
    the technique ``refused`` had no effect in what was compared, so nothing was seen of it.

    ``invariants``, ``loss_curve`` and ``numerics`` say what was compared and what came out. All of it is told
    in words by ``report.guard``.
    """

    accuracy: str
    steps: int = 0
    invariants: Invariants = Invariants()
    loss_curve: LossCurve = field(default_factory=LossCurve)
    numerics: SingleSteps = field(default_factory=SingleSteps)
    changes: tuple[str, ...] = ()  # techniques that change the training itself: accuracy was not judged then
    why_not: str = ""
    refused: str = ""
    needed: int | None = None  # steps, where there were too few
    unsteady: tuple[Difference, ...] = ()  # what two runs of the script itself differed in
    failure: str = ""  # the error that ended the check, or why single steps could not be compared
    budget: TooLittleTime | None = None  # where that, and nothing else, ended it
    after: int = 0  # steps that were not compared: the losses decide how many they are

    @property
    def passed(self) -> bool:
        return self.accuracy == "held"

    @property
    def unchecked(self) -> bool:
        return self.accuracy == "not checked"

    def differs_in(self, what: str) -> bool:
        return any(difference.what == what for difference in self.invariants.differing)
