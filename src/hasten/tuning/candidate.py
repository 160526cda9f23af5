"""A technique with the settings worth trying here, and what of it can join a plan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ..inside.techniques.base import Technique
from ..inside.techniques.exclusion import Catalog, Exclusion, against
from ..records.plan import BASELINE, Plan, Settings


@dataclass(frozen=True)
class Candidate:
    """``beside`` holds, for each of ``options``, what is to be tried with it; empty: nothing."""

    technique: type[Technique]
    options: Sequence[Settings]
    beside: Sequence[Plan] = ()

    def added_to(self, plan: Plan, number: int) -> Plan:
        """``plan`` with the option of that number, and with what is to be tried beside it."""
        for name, settings in self.beside[number].techniques.items() if self.beside else ():
            if name not in plan.techniques:
                plan = plan.adding(name, settings)
        return plan.adding(self.technique.name, self.options[number])

    def fitting(self, plan: Plan, catalog: Catalog) -> Candidate | Exclusion:
        """The part of it that can join ``plan``: fewer options, or less beside them. Where no option can,
        what excludes the last.
        """
        name = self.technique.name
        excluded = [against(plan, name, settings, catalog) for settings in self.options]
        left = [number for number, found in enumerate(excluded) if found is None]
        if not left and excluded[-1] is not None:
            return excluded[-1]
        beside = [self._beside(number, plan, catalog) for number in left] if self.beside else ()
        return replace(self, options=[self.options[number] for number in left], beside=beside)

    def _beside(self, number: int, plan: Plan, catalog: Catalog) -> Plan:
        """What can be tried beside the option of that number, in ``plan``."""
        whole, found = plan.adding(self.technique.name, self.options[number]), BASELINE
        for name, settings in self.beside[number].techniques.items():
            if name not in plan.techniques and against(whole, name, settings, catalog) is None:
                whole, found = whole.adding(name, settings), found.adding(name, settings)
        return found
