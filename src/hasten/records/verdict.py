"""The guard's verdict and the result of a whole tune."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from .cause import Cause
from .comparison import LossCurve, SingleSteps
from .curve import ThreadCurve
from .observation import Observation
from .plan import BASELINE, Plan, Settings
from .sources import SourceDigests
from .trial import Ratio


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
class TooLittleTime:
    """The budget did not suffice to check ``techniques``, and then to confirm them; ``enough`` seconds would
    do. Without techniques: what was faster was checked, and could not be confirmed.
    """

    enough: int
    techniques: tuple[str, ...] = ()


@dataclass(frozen=True)
class GuardVerdict:
    """Did accuracy hold? ``accuracy`` is "held", "not held", or "not checked", and then ``why_not`` says by
    one of these words why:

    "killed", "silent", "ended": one of the processes was killed, hung or ended. "script": the script failed
    in one. "refused": the technique ``refused`` did not apply. "short": the script takes too few steps.
    "unrepeatable": it trains otherwise each time, from one seed. "no losses": it shows none, or no numbers.
    "state": the state of one training could not be taken up by another. "budget": it ended before.

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

    @property
    def passed(self) -> bool:
        return self.accuracy == "held"

    @property
    def unchecked(self) -> bool:
        return self.accuracy == "not checked"

    def differs_in(self, what: str) -> bool:
        return any(difference.what == what for difference in self.invariants.differing)


@dataclass(frozen=True)
class Tried:
    """One row of the report: a technique that was measured."""

    technique: str
    settings: Settings
    ratio: Ratio | None
    against: Plan
    kept: bool
    reason: str
    method: str
    setup_seconds: float = 0.0
    ablation: bool = False  # judged at the end, in combination with the rest of the plan
    together: Plan = BASELINE  # techniques that were tried as one; ``technique`` then names their kind
    against_seconds: float | None = None  # what a step took under ``against``, median


@dataclass(frozen=True)
class Refused:
    """A technique that was not measured, and why."""

    technique: str
    reasons: tuple[str, ...]


@dataclass(frozen=True)
class TuneResult:
    """What ``hasten tune`` found. ``speedup`` is a claim: set only where the outcome is "gain"."""

    outcome: str  # "gain", "no-gain", "not-checked" (what was faster), "refused"
    reason: str
    plan: Plan
    speedup: Ratio | None = None
    ratio: Ratio | None = None  # the same claim, as time over time
    measured: Ratio | None = None  # what confirmation measured, claimed or not
    baseline_step_seconds: float | None = None
    baseline_samples_per_second: float | None = None
    observation: Observation | None = None
    tried: tuple[Tried, ...] = ()
    refused: tuple[Refused, ...] = ()
    guard: GuardVerdict | None = None
    tune_seconds: float = 0.0
    setup_seconds: float = 0.0  # paid once by the plan, before it gains
    breakeven_steps: int | None = None  # steps after which that has paid
    script_steps: int | None = None  # of the whole script, where it came to its end
    causes: tuple[Cause, ...] = ()
    threads: ThreadCurve | None = None  # None where their number is not ours to choose
    protection: str = ""  # "overlay", "landlock", or "off" where the user allowed writes
    warnings: tuple[str, ...] = ()
    nproc: int | None = None  # ranks of a script that is distributed itself; what is told is of one of them
    alone: str = ""  # what processes of the plan showed that were started besides the pairs
    backend: str = ""  # that stood in for the one that such a script names
    sources: SourceDigests | None = None  # of what was measured
    machine: str = ""
    cpu_flags: tuple[str, ...] = ()  # of its processor, those that decide which kernels run
    versions: Mapping[str, str] = field(default_factory=dict)

    @property
    def rank_options(self) -> str:
        """What to put behind a command to start the same ranks, and a blank; "" for one process."""
        if self.nproc is None:
            return ""
        backend = f"--backend {self.backend} " if self.backend else ""
        return f"--nproc-per-node {self.nproc} {backend}"
