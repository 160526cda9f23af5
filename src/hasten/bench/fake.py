"""A bench without processes: it answers from a table of effects, so search and report can be tested at
once.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from ..records.plan import Plan
from ..records.trial import Seen, Trial, Unseen
from .comparing.statistics import interval


class ScriptedBench:
    """``effects`` gives each technique's factor on the step's time; ``failures`` why one fails.

    Effects multiply, except for sets of techniques named in ``together``, which replace the product of
    theirs. Noise alternates deterministically by ``spread``.

    ``outside``: parts of a run, other than steps, that techniques shorten. Seeking one is ``unseen``, or
    finds this ``share``.
    """

    def __init__(
        self,
        effects: Mapping[str, float],
        failures: Mapping[str, str] | None = None,
        together: Mapping[frozenset[str], float] | None = None,
        spread: float = 0.002,
        step_seconds: float = 0.02,
        outside: Mapping[str, tuple[str, ...]] | None = None,
        unseen: Mapping[str, Unseen] | None = None,
        share: float | None = None,
    ) -> None:
        self._effects = effects
        self._failures = failures or {}
        self._together = together or {}
        self._spread = spread
        self._step_seconds = step_seconds
        self._outside = outside or {}
        self._unseen = unseen or {}
        self._share = share
        self.sought: list[tuple[Plan, float]] = []
        self.asked: list[tuple[Plan, Plan]] = []

    def compare(self, a: Plan, b: Plan, seconds: float) -> Trial:
        self.asked.append((a, b))
        failure = next((reason for name, reason in self._failures.items() if name in b.techniques), None)
        center = math.log(self.factor(b) / self.factor(a))
        log_ratios = tuple(center + self._spread * (1 if k % 2 else -1) for k in range(6))
        parts = self._parts(a, b)
        trial = Trial(
            a=a,
            b=b,
            method="scripted",
            log_ratios=log_ratios,
            ratio=None if failure else interval(log_ratios, "ABBA blocks"),
            step_seconds_a=self._step_seconds * self.factor(a),
            step_seconds_b=self._step_seconds * self.factor(b),
            seconds=0.0,
            failure=failure,
        )
        return trial.over_stretches(parts, ()) if parts else trial

    def _parts(self, a: Plan, b: Plan) -> tuple[str, ...]:
        new = [name for name in b.techniques if name not in a.techniques]
        return tuple(dict.fromkeys(part for name in new for part in self._outside.get(name, ())))

    def method(self, a: Plan, b: Plan) -> str:
        return "stretches" if self._parts(a, b) else "scripted"

    def learn(self, trial: Trial) -> None:
        pass

    def foreseen(self, a: Plan, b: Plan) -> float:
        return 0.0

    def seek(self, a: Plan, b: Plan, seconds: float) -> Seen | Unseen:
        self.sought.append((b, seconds))
        unseen = [self._unseen[part] for part in self._parts(a, b) if part in self._unseen]
        return unseen[0] if unseen else Seen(1.0, self._share)

    def factor(self, plan: Plan) -> float:
        """The plan's time over the baseline's."""
        names = set(plan.techniques)
        factor = 1.0
        for group, effect in self._together.items():
            if group <= names:
                factor *= effect
                names -= group
        return factor * math.prod(self._effects.get(name, 1.0) for name in names)
