"""Which techniques are on in this worker. Switches a plan on and off between two steps."""

from __future__ import annotations

import time

from ..records.plan import BASELINE, Plan
from ..records.trial import Proof
from .techniques.base import Technique
from .techniques.catalog import CATALOG
from .training import NotApplicable, Training


class Switchboard:
    """The plan in force. Each technique has one instance here, which keeps what its removal needs."""

    def __init__(self, training: Training) -> None:
        self._training = training
        self._plan = BASELINE
        self._installed: list[Technique] = []
        self.failed = ""  # the technique that was not applicable at the last switch

    @property
    def plan(self) -> Plan:
        return self._plan

    def switch(self, plan: Plan, prepare: bool = False) -> float:
        """Put ``plan`` in force; with ``prepare`` pay its set-up now (fill caches). Returns the seconds it
        took.

        Raises NotApplicable, with nothing left installed, where a technique finds that it cannot take effect.
        """
        began = time.perf_counter()
        self._remove_all()
        self._plan = plan
        self._training.changed = False
        try:
            for name, settings in plan.techniques.items():
                self.failed = name
                technique = CATALOG[name]()
                technique.install(self._training, settings)
                self._installed.append(technique)
                if prepare:
                    technique.prepare(self._training)
        except NotApplicable:
            self._remove_all()
            self._plan = BASELINE
            raise
        return time.perf_counter() - began

    def refresh(self) -> None:
        """Take in roots and optimizers that came since the last switch."""
        if self._training.changed and self._plan:
            self.switch(self._plan)

    def proofs(self) -> list[Proof]:
        """One proof for each technique in force, from what was counted since it was switched on."""
        return [technique.proof(self._training) for technique in self._installed]

    def _remove_all(self) -> None:
        while self._installed:
            self._installed.pop().remove(self._training)
