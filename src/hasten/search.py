"""The search for a plan: a ladder, the most promising first, then ablation of what was kept.

It sees nothing but a bench, so that tests drive it with a scripted one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from .bench.base import Bench
from .inside.techniques.base import Technique
from .records.plan import BASELINE, Plan, Settings
from .records.trial import Trial
from .records.verdict import Tried

KEEP_BELOW = 0.99  # the interval of a kept technique's ratio ends below this

_SETUP_WORTH_A_WORD = 1.0  # seconds

Notify = Callable[[Tried], None]
Announce = Callable[[str, Plan], None]


@dataclass(frozen=True)
class Candidate:
    """A technique with the settings worth trying here."""

    technique: type[Technique]
    options: Sequence[Settings]


@dataclass
class Deadline:
    """The search's share of the budget. ``left`` in seconds; the clock can be replaced in tests."""

    seconds: float
    clock: Callable[[], float] = time.monotonic
    began: float = field(init=False)

    def __post_init__(self) -> None:
        self.began = self.clock()

    @property
    def left(self) -> float:
        return self.seconds - (self.clock() - self.began)


class Search:
    """Finds a plan on a bench. ``tried`` holds a row for every comparison, in order."""

    def __init__(self, bench: Bench, deadline: Deadline, announce: Announce, notify: Notify) -> None:
        self._bench = bench
        self._deadline = deadline
        self._announce = announce
        self._notify = notify
        self.tried: list[Tried] = []
        self.untried: list[str] = []

    def run(self, candidates: Sequence[Candidate]) -> Plan:
        """The plan found. ``candidates`` come in the order to try them, the most promising first.

        What steadies the steps is on from the start, because everything else is measured better beside it; it
        must earn its place at the end, in the final company, like all others.
        """
        steadying = [candidate for candidate in candidates if candidate.technique.steadies]
        climbing = [candidate for candidate in candidates if not candidate.technique.steadies]
        plan = BASELINE
        for candidate in steadying:
            plan = plan.adding(candidate.technique.name, candidate.options[0])
        adopted: list[str] = []
        for position, candidate in enumerate(climbing):
            name = candidate.technique.name
            if candidate.technique.conflicts & set(plan.techniques):
                continue
            if self._deadline.left <= 0:
                self.untried.append(name)
                continue
            still_to_do = len(climbing) - position + len(steadying)
            plan = self._try(plan, candidate, self._deadline.left / still_to_do)
            adopted += [name] if name in plan.techniques else []
        for name in adopted[:-1]:  # the last one was measured in the final company already
            plan = self._ablate(plan, name)
        for candidate in steadying:
            plan = self._ablate(plan, candidate.technique.name)
        return plan

    def _try(self, plan: Plan, candidate: Candidate, seconds: float) -> Plan:
        """``plan`` with the best of the candidate's options that wins, or ``plan`` itself."""
        name = candidate.technique.name
        best, best_upper = plan, KEEP_BELOW
        for settings in candidate.options:
            trial = self._compare(name, plan, plan.adding(name, settings), seconds / len(candidate.options))
            kept = trial.upper() < best_upper and not trial.never_pays
            if kept:
                best, best_upper = trial.b, trial.upper()
            self._record(name, settings, trial, kept, _reason(trial, kept))
        return best

    def _ablate(self, plan: Plan, name: str) -> Plan:
        """``plan``, or ``plan`` without a technique that does not earn its place beside the others."""
        trial = self._compare(name, plan.without(name), plan, max(0.0, self._deadline.left))
        kept = trial.upper() < KEEP_BELOW and not trial.never_pays
        reason = f"{_reason(trial, kept, ' beside the others')}{'' if kept else ': not kept'}"
        self._record(name, plan.techniques[name], trial, kept, reason, ablation=True)
        return plan if kept else plan.without(name)

    def _compare(self, name: str, a: Plan, b: Plan, seconds: float) -> Trial:
        self._announce(name, a)
        return self._bench.compare(a, b, seconds)

    def _record(
        self, name: str, settings: Settings, trial: Trial, kept: bool, reason: str, ablation: bool = False
    ) -> None:
        self.record(
            Tried(
                technique=name,
                settings=settings,
                ratio=trial.ratio,
                against=trial.a,
                kept=kept,
                reason=reason,
                method=trial.method,
                setup_seconds=trial.setup_seconds,
                ablation=ablation,
            )
        )

    def record(self, row: Tried) -> None:
        """Add a row to what was tried, and tell."""
        self.tried.append(row)
        self._notify(row)


def _reason(trial: Trial, kept: bool, where: str = "") -> str:
    """In words, with what a reader of the number should know. ``where`` a kept one is a gain."""
    if trial.failure is not None:
        return trial.failure
    if kept or trial.never_pays:
        said = f"a gain{where}"
    elif trial.ratio is None:
        said = "could not be measured"
    else:
        said = "slower" if trial.ratio.low > 1 else "no gain found"
    remarks = [proof.remark for proof in trial.proofs if proof.remark]
    return "; ".join([said, *_set_up(trial, said.startswith("a gain")), *remarks])


def _set_up(trial: Trial, gains: bool) -> list[str]:
    """What the set-up takes and when it has paid, where it is worth a word."""
    if trial.setup_seconds < _SETUP_WORTH_A_WORD:
        return []
    if not gains or trial.breakeven_steps is None:
        return [f"its set-up took {trial.setup_seconds:.3g} s"]
    text = f"its set-up of {trial.setup_seconds:.3g} s pays after {trial.breakeven_steps} steps"
    return [f"{text}, and the script ends after {trial.script_steps}" if trial.never_pays else text]
