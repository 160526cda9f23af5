"""The result of a whole tune."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from .cause import Cause
from .caution import Caution
from .conclusion import Conclusion, Looks
from .curve import ThreadCurve
from .observation import Observation
from .plan import BASELINE, Plan, Settings
from .reasons import Reason, WhyNot
from .run_forecast import RunForecast
from .run_pace import TunedPace
from .sources import SourceDigests
from .spent import Spent
from .trial import Ratio
from .verdict import GuardVerdict

START = "start"  # name of the row for all that shortens the start, and of that part of a run
RUNS = "runs"  # its method: starts and steps, for as many steps as a run has


@dataclass(frozen=True)
class Tried:
    """One row of the report: a technique that was measured."""

    technique: str
    settings: Settings
    ratio: Ratio | None
    against: Plan
    kept: bool
    reason: Reason
    method: str
    setup_seconds: float = 0.0
    ablation: bool = False  # measured at the end, in combination with the rest of the plan
    together: Plan = BASELINE  # techniques that were tried as one; ``technique`` then names their kind
    parts: tuple[str, ...] = ()  # for which whole stretches of the run were compared, and not steps
    against_seconds: float | None = None  # what a step took under ``against``, median
    spent: Spent | None = None  # where the comparison's time went
    earlier: bool = False  # measured by an earlier tune of the same training


@dataclass(frozen=True)
class Refused:
    """A technique that was not measured, and why."""

    technique: str
    reasons: tuple[WhyNot, ...]


@dataclass(frozen=True)
class TuneResult:
    """What ``hasten tune`` found. ``speedup`` is a claim: set only if the outcome is "gain".

    It is of regular steps. If the plan shortens other ``parts`` of the run, it is of whole stretches
    of the run, with these parts and steps in them; ``steps_ratio`` is then that of the regular steps alone.
    If the start is the only one of the ``parts``, it is of a whole run with these arguments.
    """

    outcome: str  # "gain", "no-gain", "not-checked" (what was faster), "refused"
    reason: Conclusion
    plan: Plan
    speedup: Ratio | None = None
    ratio: Ratio | None = None  # the same claim, as time over time
    parts: tuple[str, ...] = ()
    shortened: float = 1.0  # share of each epoch's batches that these stretches had; 1: all
    steps_ratio: Ratio | None = None  # as measured in the same pairs; None if too few steps were regular
    measured: Ratio | None = None  # what confirmation measured, claimed or not
    baseline_step_seconds: float | None = None
    baseline_samples_per_second: float | None = None
    observation: Observation | None = None
    tried: tuple[Tried, ...] = ()
    refused: tuple[Refused, ...] = ()
    guard: GuardVerdict | None = None
    tune_seconds: float = 0.0
    setup_seconds: float = 0.0  # paid once by the plan, before it gains
    lasting_seconds: float = 0.0  # part of it that only the first run on this machine pays
    breakeven_steps: int | None = None  # steps after which that has paid off
    script_steps: int | None = None  # of the whole script, if it reached its end
    causes: tuple[Cause, ...] = ()
    threads: ThreadCurve | None = None  # None if their number is not ours to choose
    protection: str = ""  # "overlay", "landlock", or "off" if the user allowed writes
    warnings: tuple[Caution, ...] = ()
    nproc: int | None = None  # ranks of a script that is distributed itself; the numbers are for one of them
    forecast: RunForecast | None = None  # what the claim means for a whole run; None without one
    pace: TunedPace | None = None  # of regular steps under the plan; None without a claim
    looks: Looks | None = None  # None: none were started in addition to the pairs
    backend: str = ""  # used instead of the one that such a script names
    sources: SourceDigests | None = None  # of what was measured
    machine: str = ""
    cpu_flags: tuple[str, ...] = ()  # of its processor, those that decide which kernels run
    versions: Mapping[str, str] = field(default_factory=dict)

    @property
    def only_starts_sooner(self) -> bool:
        """Whether the plan makes no step faster: the claim is of a run, by its start."""
        return self.parts == (START,)

    @property
    def rank_options(self) -> str:
        """Options that start the same ranks, with a trailing blank; "" for one process."""
        if self.nproc is None:
            return ""
        backend = f"--backend {self.backend} " if self.backend else ""
        return f"--nproc-per-node {self.nproc} {backend}"
