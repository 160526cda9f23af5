"""The search for a plan: a ladder, the most promising first, then ablation of what was kept.

Settings of a process that cost little where they do not help are tried first together, as one: pairs of fresh
processes are dear. Only where they gain together is each judged singly.

It sees nothing but a bench, so that tests drive it with a scripted one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from .bench.base import Bench
from .bench.statistics import KEEP_BELOW
from .candidate import Candidate
from .inside.techniques.base import Technique
from .inside.techniques.catalog import CATALOG
from .inside.techniques.exclusion import Exclusion
from .reasons import reason_of, reason_together
from .records.plan import BASELINE, Plan, Settings
from .records.trial import Trial
from .records.verdict import Refused, Tried
from .report.words import settings_words, technique_words

TOGETHER = "environment"  # how the row of what was tried together is called

LIKELY_BELOW = 0.95  # a ratio this good in a comparison that cannot tell speaks for what gained before
_DEAR = 4  # times what is switched within one process

Notify = Callable[[Tried], None]
Announce = Callable[[str, Plan], None]


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
        self.left_out: list[Refused] = []  # settings of what was tried, and techniques not judged singly
        self._catalog: dict[str, type[Technique]] = dict(CATALOG)
        self._longest = 0.0  # seconds that a comparison of processes took so far

    def run(self, candidates: Sequence[Candidate]) -> Plan:
        """The plan found. ``candidates`` come in the order to try them, the most promising first.

        What steadies the steps is on from the start, because everything else is measured better beside it; it
        must earn its place at the end, in the final company, like all others.
        """
        self._catalog |= {candidate.technique.name: candidate.technique for candidate in candidates}
        steadying = [candidate for candidate in candidates if candidate.technique.steadies]
        joint = [c for c in candidates if c.technique.jointly and not c.technique.steadies]
        climbing = [c for c in candidates if not c.technique.steadies and c not in joint]
        plan, alone = BASELINE, True  # whether the last that was adopted came by itself
        for fitting in self._fitting_each_other(plan, steadying):
            plan = plan.adding(fitting.technique.name, fitting.options[0])
        adopted: list[str] = []
        for position, candidate in enumerate(climbing):
            name = candidate.technique.name
            if name in plan.techniques:
                continue
            fitted = self._fitted(plan, candidate)
            if fitted is None:
                continue
            if self._deadline.left <= 0:
                self.untried.append(name)
                continue
            to_do = sum(map(_weight, climbing[position:])) + bool(joint) + len(steadying)
            before = plan
            plan = self._try(plan, fitted, self._deadline.left * _weight(candidate) / to_do)
            new = [one for one in plan.techniques if one not in before.techniques]
            adopted += new
            alone = len(new) < 2 if new else alone
        together, singly = self._try_together(plan, joint, 1 + len(steadying))
        plan = together
        for candidate in singly:
            plan = self._try_if_affordable(plan, candidate)
        won = [c.technique.name for c in singly if c.technique.name in plan.techniques]
        adopted, alone = adopted + won, alone or bool(won)
        joined = [
            c.technique.name for c in joint if c.technique.name in set(together.techniques) - set(adopted)
        ]
        plan = self._settle(plan, joined, self._judge_singly)
        # the last one tried alone was measured in the final company already
        plan = self._settle(plan, adopted[:-1] if alone and not joined else adopted, self._ablate)
        for candidate in steadying:
            plan = self._ablate(plan, candidate.technique.name)
        for candidate in (*steadying, *(c for c in joint if c.technique.name in plan.techniques)):
            plan = self._try_others(plan, candidate)
        return plan

    def _try_together(
        self, plan: Plan, joint: Sequence[Candidate], still_to_do: int
    ) -> tuple[Plan, Sequence[Candidate]]:
        """``plan`` with the first settings of all of ``joint`` if that gains, and those to be tried singly.

        One that has no effect is left out and the rest tried again. Where the whole is slower, or fails and
        nothing tells by whose fault, each is to be tried singly.
        """
        group = self._fitting_each_other(plan, joint)
        while len(group) > 1 and self._deadline.left > 0:
            whole = plan
            for candidate in group:
                whole = whole.adding(candidate.technique.name, candidate.options[0])
            trial = self._compare(TOGETHER, plan, whole, self._deadline.left / still_to_do)
            kept = trial.upper() < KEEP_BELOW
            names = {candidate.technique.name for candidate in group}
            idle = {proof.technique for proof in trial.proofs if not proof.effective} & names
            self._record_together(trial, whole.only(names), kept, bool(idle))
            if kept:
                return whole, []
            if trial.failure is None and (trial.ratio is None or trial.ratio.low <= 1):
                return plan, []
            if not idle:
                break
            group = [candidate for candidate in group if candidate.technique.name not in idle]
        return plan, group

    def _fitted(self, plan: Plan, candidate: Candidate) -> Candidate | None:
        """The part of a candidate that can join ``plan``; None, and the reason is kept, where nothing can."""
        fitted = candidate.fitting(plan, self._catalog)
        if isinstance(fitted, Exclusion):
            self.left_out.append(Refused(candidate.technique.name, (str(fitted),)))
            return None
        return fitted

    def _fitting_each_other(self, plan: Plan, candidates: Sequence[Candidate]) -> list[Candidate]:
        """Those whose first settings can all join ``plan``; of two that exclude each other, the first."""
        found = []
        for candidate in candidates:
            name = candidate.technique.name
            fitted = self._fitted(plan, candidate) if name not in plan.techniques else None
            if fitted is not None:
                found.append(replace(fitted, beside=()))
                plan = plan.adding(name, fitted.options[0])
        return found

    def _try_if_affordable(self, plan: Plan, candidate: Candidate) -> Plan:
        """As ``_try``, the first settings only."""
        if self._affords():
            first = replace(candidate, options=candidate.options[:1], beside=candidate.beside[:1])
            return self._try(plan, first, self._deadline.left)
        self.untried.append(candidate.technique.name)
        return plan

    def _settle(self, plan: Plan, names: Sequence[str], judge: Callable[[Plan, str], Plan]) -> Plan:
        """``plan`` with those of ``names`` that earn their place; who did so in another company, that of one
        gone since, is judged again.
        """
        waiting = list(names)
        stayed: list[str] = []
        while waiting:
            name = waiting.pop(0)
            plan = judge(plan, name)
            if name in plan.techniques:
                stayed.append(name)
            else:
                waiting, stayed = waiting + stayed, []
        return plan

    def _judge_singly(self, plan: Plan, name: str) -> Plan:
        """As ``_ablate``, if the budget allows it; what is not judged stays, as a part of what gained."""
        if self._affords():
            return self._ablate(plan, name)
        why = "kept as a part of what gained together: the budget ended before it could be judged singly"
        self.left_out.append(Refused(name, (why,)))
        return plan

    def _try_others(self, plan: Plan, candidate: Candidate) -> Plan:
        """``plan`` with another of the candidate's settings than the first, where one gains more."""
        name = candidate.technique.name
        first = plan.techniques.get(name, candidate.options[0])
        fitting = candidate.fitting(plan, self._catalog)
        options = () if isinstance(fitting, Exclusion) else fitting.options
        others = [settings for settings in options if settings != first]
        for position, settings in enumerate(others):
            if not self._affords():
                rest = " or ".join(settings_words(settings) for settings in others[position:])
                self.left_out.append(Refused(name, (f"the budget ended before {rest} could be tried",)))
                break
            trial = self._compare(
                name, plan, plan.adding(name, settings), self._deadline.left / (len(others) - position)
            )
            kept = trial.upper() < KEEP_BELOW
            reason = reason_of(trial, kept)
            if name in plan.techniques:
                reason = "a gain over the settings before" if kept else f"{reason}: the settings before stay"
            self._record(name, settings, trial, kept, reason)
            plan = trial.b if kept else plan
        return plan

    def _affords(self) -> bool:
        """Whether one more comparison of processes fits into the budget, as far as is known."""
        return self._deadline.left > self._longest

    def _try(self, plan: Plan, candidate: Candidate, seconds: float) -> Plan:
        """``plan`` with the best of the candidate's options that wins, or ``plan`` itself."""
        name = candidate.technique.name
        best, best_upper = plan, KEEP_BELOW
        for number, settings in enumerate(candidate.options):
            wanted = candidate.added_to(plan, number)
            trial = self._compare(name, plan, wanted, seconds / len(candidate.options))
            kept = trial.upper() < best_upper and not trial.never_pays
            if kept:
                best, best_upper = trial.b, trial.upper()
            new = [other for other in wanted.techniques if other not in plan.techniques and other != name]
            together = [f"with {technique_words(other, wanted.techniques[other])}" for other in new]
            self._record(name, settings, trial, kept, ", ".join([reason_of(trial, kept), *together]))
        return best

    def _ablate(self, plan: Plan, name: str) -> Plan:
        """``plan``, or ``plan`` without a technique that does not earn its place beside the others.

        It has gained once, so where few pairs cannot tell, it stays if they speak for it: what is claimed
        is up to the confirmation.
        """
        trial = self._compare(name, plan.without(name), plan, max(0.0, self._deadline.left))
        certain = trial.upper() < KEEP_BELOW
        likely = trial.ratio is not None and trial.ratio.value < LIKELY_BELOW
        kept = (certain or likely) and not trial.never_pays
        if kept and not certain:
            reason = "faster beside the others, though few pairs cannot be sure"
        else:
            reason = f"{reason_of(trial, kept, ' beside the others')}{'' if kept else ': not kept'}"
        self._record(name, plan.techniques[name], trial, kept, reason, ablation=True)
        return plan if kept else plan.without(name)

    def _compare(self, name: str, a: Plan, b: Plan, seconds: float) -> Trial:
        self._announce(name, a)
        trial = self._bench.compare(a, b, seconds)
        if trial.method == "pairs":
            self._longest = max(self._longest, trial.seconds)
        return trial

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
                against_seconds=trial.step_seconds_a,
            )
        )

    def _record_together(self, trial: Trial, together: Plan, kept: bool, again: bool) -> None:
        row = Tried(
            technique=TOGETHER,
            settings={},
            ratio=trial.ratio,
            against=trial.a,
            kept=kept,
            reason=reason_together(trial, together, kept, again),
            method=trial.method,
            setup_seconds=trial.setup_seconds,
            together=together,
        )
        self.record(row)

    def record(self, row: Tried) -> None:
        """Add a row to what was tried, and tell."""
        self.tried.append(row)
        self._notify(row)


def _weight(candidate: Candidate) -> int:
    """Its share of the time: fresh processes have to start, and need several pairs."""
    return 1 if candidate.technique.scope == "live" else _DEAR
