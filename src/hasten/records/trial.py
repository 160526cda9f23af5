"""A trial: one comparison of two plans, with its raw values. Statistics are derived from them, never stored
alone.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from .plan import Plan
from .run_forecast import SeenProcess
from .spent import Spent


@dataclass(frozen=True)
class Ratio:
    """b's time a sample over a's: below 1, b is faster. ``low`` to ``high`` is the 95% interval over
    ``count`` units.
    """

    value: float
    low: float
    high: float
    count: int
    unit: str  # "ABBA blocks" (of one process) or "pairs" (of fresh processes)

    def inverted(self) -> Ratio:
        """The same as a speedup: a's time over b's."""
        return Ratio(1 / self.value, 1 / self.high, 1 / self.low, self.count, self.unit)


@dataclass(frozen=True)
class Proof:
    """Whether a technique took effect: counted, not assumed.

    ``lasting_seconds``: set-up paid once on this machine and not by each process, as recorded by what it
    made, whichever process paid. ``paid_seconds``: the part paid by this process. ``shared_seconds``: set-up
    that a run pays, and that other processes of this tune are spared.
    """

    technique: str
    effective: bool
    evidence: str
    remark: str = ""  # what a reader of the measured number should know
    lasting_seconds: float = 0.0
    paid_seconds: float = 0.0
    shared_seconds: float = 0.0


@dataclass(frozen=True)
class Unseen:
    """Why plans that differ in another ``part`` of a run than its steps could not be compared: it occurred
    ``times`` times in ``seconds`` after the beginning. 0 s: it was not watched, because a start or an epoch
    takes longer than the time left. ``ended``: the script ended before. ``needed``: seconds in which it would
    have been seen, None if not known. ``failure``: the error that ended training.
    """

    part: str
    seconds: float
    times: int = 0
    ended: bool = False
    needed: float | None = None
    failure: str = ""


@dataclass(frozen=True)
class Seen:
    """Plans that differ in another part of a run than its steps can be compared: it occurred. ``seconds`` of
    a stretch from one time to the next, plain; ``share``: the part of it beyond regular steps, the most that
    can be gained there. None if the part does not show in steps.
    """

    seconds: float
    share: float | None = None


@dataclass(frozen=True)
class Trial:
    """The result of ``Bench.compare(a, b)``.

    ``log_ratios`` are the raw values, one for each ABBA block or pair: log(b's seconds a sample / a's). A
    trial with a ``failure`` has no ratio and can win nothing.
    """

    a: Plan
    b: Plan
    method: str  # "live", "pairs", "stretches", "scripted"
    log_ratios: tuple[float, ...]
    ratio: Ratio | None
    step_seconds_a: float | None  # of the usual step; over whole stretches, with everything in them
    step_seconds_b: float | None
    seconds: float  # what the trial itself took, wall clock
    setup_seconds: float = 0.0  # paid once by b before timing: filling a cache, compiling
    lasting_seconds: float = 0.0  # part of it that only b's first run on this machine pays
    slower_start: float = 0.0  # seconds that each process takes longer to its first step under b
    proofs: tuple[Proof, ...] = ()
    failure: str | None = None
    script_steps: int | None = None  # of the whole plain script, if it reached its end
    looks: tuple[float, ...] = ()  # processes of b alone: log(each one's seconds a sample / the usual one's)
    looks_most: int = 0  # how many there could have been
    claims: int = 1  # of a confirmation: how many claims are at stake, of which one is made
    steps_share: float = 1.0  # of the time that was compared: a slow process is slow in its steps
    cut_short: bool = False  # the budget ended during it; if that is the failure, b itself did not fail
    processes_a: tuple[SeenProcess, ...] = ()  # one per pair, if processes were compared
    processes_b: tuple[SeenProcess, ...] = ()
    parts: tuple[str, ...] = ()  # for which whole stretches of a run were compared; (): regular steps were
    step_log_ratios: tuple[float, ...] = ()  # of the regular steps in these stretches, one per pair
    shortened: float = 1.0  # share of each epoch's batches, of training and evaluation alike, that it had
    spent: Spent | None = None  # where ``seconds`` went
    phases_b: Mapping[str, float] = field(default_factory=dict)  # seconds of b's regular step, if timed
    earlier: bool = False  # measured by an earlier tune of the same training
    too_late: bool = False  # it failed only because the training had gone on: in new processes it may not
    late: int = 0  # steps that were trained before anything was compared: b has nothing to gain in those

    @property
    def once_seconds(self) -> float:
        """What b costs once in a run and a does not."""
        return self.setup_seconds + self.slower_start

    @property
    def breakeven_steps(self) -> int | None:
        """Steps after which b has earned its set-up back; None without set-up, or if b gains nothing."""
        return self._earns_in_steps(self.setup_seconds)

    @property
    def pays_after(self) -> int | None:
        """The same for all that it costs once."""
        return self._earns_in_steps(self.once_seconds)

    @property
    def never_pays(self) -> bool:
        """Whether a run ends before that, by what is known of its length."""
        if self.pays_after is None or self.script_steps is None:
            return False
        return self.pays_after > self.script_steps

    def _earns_in_steps(self, seconds: float) -> int | None:
        if not seconds or self.step_seconds_a is None or self.step_seconds_b is None:
            return None
        gained = self.step_seconds_a - self.step_seconds_b
        return math.ceil(seconds / gained) if gained > 0 else None

    def over_stretches(self, parts: tuple[str, ...], step_log_ratios: tuple[float, ...]) -> Trial:
        """The same, marked as being over whole stretches of a run."""
        return replace(self, method="stretches", parts=parts, step_log_ratios=step_log_ratios)

    def upper(self) -> float:
        """The pessimistic end of the ratio: infinite for a failed trial."""
        return float("inf") if self.ratio is None else self.ratio.high
