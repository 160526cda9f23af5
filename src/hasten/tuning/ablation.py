"""Each technique of a plan against the same plan without it: does it earn its place?

A comparison that cannot tell changes nothing: what is known is not thrown away for it. It is repeated once,
if there is time, and both results count.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ..bench.comparing.decisions import excludes_gain, gains, likely
from ..records.plan import Plan
from ..records.reasons import Reason, WhyNot
from ..records.trial import Trial
from .candidate import Candidate
from .comparisons import Comparisons
from .reasons import reason_of


class Ablation:
    """Judges what a search has kept. ``proven``: techniques that gained alone at least once. What a candidate
    carries goes with it.
    """

    def __init__(
        self,
        comparisons: Comparisons,
        proven: Collection[str],
        candidates: Sequence[Candidate] = (),
    ) -> None:
        self._comparisons = comparisons
        self._carried = {one.technique.name: one.carries for one in candidates}
        self._proven = frozenset(proven)
        self._undecided: dict[str, Plan] = {}  # by name: the plan it was in

    def whole(
        self,
        plan: Plan,
        adopted: Sequence[Sequence[str]],
        joined: Sequence[str],
        steadying: Collection[str],
    ) -> Plan:
        """``plan`` with what earns its place. ``adopted``: by a comparison each; ``joined``: together;
        ``steadying``: measured in no comparison of its own.
        """
        names = [name for names in adopted for name in names]
        alone = not joined and (not adopted or len(adopted[-1]) == 1)
        plan = self.settle(plan, joined)
        # the last one tried alone was measured together with all the others already
        plan = self.settle(plan, names[:-1] if alone else names)
        for name in steadying:
            if name in plan.techniques:
                plan = self.earned(plan, name)
        return self.once_more(plan)

    def settle(self, plan: Plan, names: Sequence[str]) -> Plan:
        """``plan`` with those of ``names`` that earn their place. A technique that was measured together with
        one that is gone since is measured again.
        """
        waiting = list(names)
        stayed: list[str] = []
        while waiting:
            name = waiting.pop(0)
            if name not in plan.techniques:  # it went with what carried it
                continue
            plan = self._judged(plan, name)
            if name in plan.techniques:
                stayed.append(name)
            else:
                waiting, stayed = waiting + stayed, []
        return plan

    def once_more(self, plan: Plan) -> Plan:
        """Repeat the comparisons that could not tell, if there is time."""
        for name in [name for name, where in self._undecided.items() if where == plan]:
            if name in plan.techniques and self._comparisons.affords(self._without(plan, name), plan):
                plan = self._judged(plan, name)
        return plan

    def earned(self, plan: Plan, name: str) -> Plan:
        """Like ``settle``, for a technique never measured alone: alone in its plan, it must gain to stay."""
        if len(plan.techniques) > 1:
            return self._judged(plan, name)
        if not self._comparisons.affords(plan.without(name), plan, last=True):
            self._comparisons.leave_out(name, WhyNot("no time"))
            return plan.without(name)
        return self._judged(plan, name, alone=True)

    def _judged(self, plan: Plan, name: str, alone: bool = False) -> Plan:
        without = self._without(plan, name)
        if not self._comparisons.affords(without, plan, last=alone):
            return self._left(plan, name)
        trial = self._comparisons.compare(name, without, plan, self._comparisons.seconds_left)
        if trial.too_late:
            return self._left(plan, name)
        kept, reason = self._verdict(trial, name, alone)
        self._comparisons.record(name, plan.techniques[name], trial, kept, reason, ablation=True)
        return plan if kept else without

    def _left(self, plan: Plan, name: str) -> Plan:
        """``plan`` as it is, for want of time."""
        self._undecided.pop(name, None)
        self._comparisons.leave_out(name, WhyNot("no time in combination"))
        return plan

    def _without(self, plan: Plan, name: str) -> Plan:
        return plan.only(plan.techniques.keys() - {name, *self._carried.get(name, ())})

    def _verdict(self, trial: Trial, name: str, alone: bool) -> tuple[bool, Reason]:
        """Whether it stays, and why."""
        self._undecided.pop(name, None)
        if trial.never_pays or (trial.failure is not None and not trial.cut_short):
            return False, reason_of(trial, False, "not kept")
        if gains(trial.ratio):
            return True, reason_of(trial, True, "" if alone else "earned")
        if alone and likely(trial.ratio):
            return True, reason_of(trial, False, "likely")
        if alone or excludes_gain(trial.ratio, name in self._proven):
            return False, reason_of(trial, False, "not kept")
        self._undecided[name] = trial.b
        return True, reason_of(trial, False, "undecided")
