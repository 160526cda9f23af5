"""The guard's verdict."""

from __future__ import annotations

from dataclasses import dataclass, field

from .comparison import LossCurve, SingleSteps

DRAWN = frozenset({"batches", "streams"})  # invariants that differ where different random numbers are drawn


@dataclass(frozen=True)
class Difference:
    """Something that must be equal in two trainings and was not, or that a training must have and had not.

    ``what``: "steps" (how many they took: ``counts``), "batches", "modes", "rates", "optimizer", "streams",
    "inputs", "samples", or "shape" (of the tensor ``name``); "losses" if some are missing, and "number" if
    the loss is not one. ``step``: the first at which it differed, or was missing.
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
    """The budget was too short to check ``techniques`` and then confirm them; ``enough`` seconds would
    be enough. Without techniques: what was faster was checked, and could not be confirmed.
    """

    enough: int
    techniques: tuple[str, ...] = ()
    seen: Shortfall | None = None


@dataclass(frozen=True)
class GuardVerdict:
    """Did accuracy hold? ``accuracy`` is "held", "not held", or "not checked"; then ``why_not`` says why in
    one of these words:

    "killed", "silent", "ended": one of the processes was killed, hung or ended. "script": the script failed
    in one. "refused": the technique ``refused`` did not apply. "short": the script takes too few steps.
    "noise": it does so with noise the size of rounding in the plan's precision.
    "unrepeatable": two runs from one seed differ. "no losses": there are none, or they are not numbers.
    "state": one training could not load the state of another. "budget": it ended before. "idle": the
    technique ``refused`` had no effect in what was compared, so nothing was learnt about it.

    ``invariants``, ``loss_curve`` and ``numerics`` say what was compared and the results. ``report.guard``
    puts all of it into words.
    """

    accuracy: str
    steps: int = 0
    invariants: Invariants = Invariants()
    loss_curve: LossCurve = field(default_factory=LossCurve)
    numerics: SingleSteps = field(default_factory=SingleSteps)
    changes: tuple[str, ...] = ()  # techniques that change the training itself: accuracy was not judged then
    why_not: str = ""
    refused: str = ""
    needed: int | None = None  # steps needed, if there were too few
    unsteady: tuple[Difference, ...] = ()  # how two runs of the script itself differed
    failure: str = ""  # the error that ended the check, or why single steps could not be compared
    budget: TooLittleTime | None = None  # if that alone ended it
    cut_short: bool = False  # time ended before everything was looked at that might speak for a refused plan
    # What it took until it was known whether anything speaks against a plan, and more was looked at.
    first_seconds: float | None = field(default=None, compare=False)
    after: int = 0  # steps that were not compared, because the losses decide their number

    @property
    def passed(self) -> bool:
        """Whether accuracy held."""
        return self.accuracy == "held"

    @property
    def unchecked(self) -> bool:
        return self.accuracy == "not checked"

    @property
    def parts_by_draws(self) -> bool:
        """Whether two runs from one seed differed in random draws and what follows from them, and in nothing
        else: a detector draws from its proposals, and rounding changes which ones these are.
        """
        parted = {difference.what for difference in self.unsteady}
        return bool(parted) and parted <= DRAWN

    def differs_in(self, what: str) -> bool:
        """Whether an invariant of this kind differed (``Difference.what``)."""
        return any(difference.what == what for difference in self.invariants.differing)
