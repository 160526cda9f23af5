"""A technique with the settings worth trying here, and the part of it that can join a plan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ..bench.comparing.decisions import gains, worth_repeating
from ..inside.techniques.base import Technique
from ..inside.techniques.exclusion import Catalog, Exclusion, against
from ..records.plan import BASELINE, Plan, Settings
from ..records.result import Tried

_EXPENSIVE = 4  # times what is switched within one process


@dataclass(frozen=True)
class Candidate:
    """``together_with`` holds, for each of ``options``, what to try it with; empty: nothing. ``share``: the
    share of a run taken by the parts that it shortens, if these are not steps and the share is
    known. ``gains_with``: techniques whose adoption is a reason to try it once more. ``carries``: those
    that apply only in combination with some of its options. ``first``: what it is for makes all other
    comparisons take several times as long. ``within``: parts of a run that belong to each step.
    """

    technique: type[Technique]
    options: Sequence[Settings]
    together_with: Sequence[Plan] = ()
    share: float | None = None
    gains_with: frozenset[str] = frozenset()
    carries: frozenset[str] = frozenset()
    first: bool = False
    within: frozenset[str] = frozenset()

    @property
    def outside_steps(self) -> bool:
        """Whether it shortens other parts of a run, between the first step and the last."""
        return any(part not in ("steps", "start", *self.within) for part in self.technique.parts)

    @property
    def is_cheap(self) -> bool:
        """Whether a comparison takes little more than its steps."""
        return self.technique.scope == "live" and not self.technique.slow_to_set_up

    @property
    def weight(self) -> int:
        """Its share of the time: fresh processes have to start, and need several pairs."""
        return 1 if self.technique.scope == "live" else _EXPENSIVE

    def added_to(self, plan: Plan, number: int) -> Plan:
        """``plan`` with the option of that number, and with what to try together with it."""
        for name, settings in self.together_with[number].techniques.items() if self.together_with else ():
            if name not in plan.techniques:
                plan = plan.adding(name, settings)
        return plan.adding(self.technique.name, self.options[number])

    def only(self, options: Sequence[Settings]) -> Candidate:
        """The same with only these options."""
        left = [number for number, settings in enumerate(self.options) if settings in options]
        together_with = [self.together_with[number] for number in left] if self.together_with else ()
        return replace(self, options=[self.options[number] for number in left], together_with=together_with)

    def fitting(self, plan: Plan, catalog: Catalog) -> Candidate | Exclusion:
        """The part of it that can join ``plan``: fewer options, or less together with them. If no option
        can, what excludes the last.
        """
        name = self.technique.name
        excluded = [against(plan, name, settings, catalog) for settings in self.options]
        left = [number for number, found in enumerate(excluded) if found is None]
        if not left and excluded[-1] is not None:
            return excluded[-1]
        together_with = (
            [self._together_with(number, plan, catalog) for number in left] if self.together_with else ()
        )
        return replace(self, options=[self.options[number] for number in left], together_with=together_with)

    def for_second_try(self, tried: Sequence[Tried], found: Plan) -> Candidate | None:
        """What is worth trying once more in combination with ``found``: all of it if what it gains with came
        after it, else what looked faster without certainty, or would now that everything else is faster; None
        if nothing is.
        """
        if self.gains_by_now(tried, found):
            return self
        rows = [row for row in tried if row.technique == self.technique.name]
        looked = [row.settings for row in rows if worth_repeating(row.ratio, _faster_since(row, tried))]
        return self.only(looked) if looked else None

    def gains_by_now(self, tried: Sequence[Tried], found: Plan) -> bool:
        """Whether what it gains with was found after it had been tried without a gain."""
        rows = [row for row in tried if row.technique == self.technique.name]
        new = [self.gains_with & (found.techniques.keys() - row.against.techniques.keys()) for row in rows]
        return bool(new) and all(new) and not any(gains(row.ratio) for row in rows)

    def _together_with(self, number: int, plan: Plan, catalog: Catalog) -> Plan:
        """What can be tried together with the option of that number, in ``plan``."""
        whole, found = plan.adding(self.technique.name, self.options[number]), BASELINE
        for name, settings in self.together_with[number].techniques.items():
            if name not in plan.techniques and against(whole, name, settings, catalog) is None:
                whole, found = whole.adding(name, settings), found.adding(name, settings)
        return found


def rivals_of(
    candidate: Candidate, unsure: Sequence[Candidate], tried: Sequence[Tried], found: Plan, catalog: Catalog
) -> list[Candidate]:
    """Those of ``unsure`` that the candidate excludes, and that gain with what was found since."""
    own = candidate.added_to(BASELINE, 0)
    shut_out = [one for one in unsure if isinstance(one.fitting(own, catalog), Exclusion)]
    return [one for one in shut_out if one.gains_by_now(tried, found)]


def _faster_since(row: Tried, tried: Sequence[Tried]) -> float:
    """How many times faster a step is than when ``row`` was measured, at least 1; 1 where it is not known."""
    of_steps = [one for one in tried if one.kept and not one.parts and one.method != "starts"]
    now = [
        one.against_seconds * one.ratio.value
        for one in of_steps
        if one.against_seconds is not None and one.ratio is not None
    ]
    return max(1.0, row.against_seconds / now[-1]) if now and row.against_seconds is not None else 1.0
