"""A run under a plan, without a coordinator: techniques that apply are put in force; those that do not, or
have no effect, are named to the user.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from ...records.facts import Facts
from ...records.observation import Observation
from ...records.plan import Plan
from ...saying import say
from ..job import Job
from ..techniques.catalog import CATALOG
from ..training import NotApplicable
from . import script_side
from .run_summary import Summarizer

if TYPE_CHECKING:
    from ..switch import Switchboard
    from ..training import Training


class UnderPlan:
    """``summarizer`` keeps what was said, for the summary at the end of the run."""

    def __init__(self, job: Job, summarizer: Summarizer | None) -> None:
        self._is_over = False  # the script has ended: there is nothing left to stop
        self._missed = False  # something that --strict asked for
        self._job = job
        self._summarizer = summarizer

    def put_in_force(self, plan: Plan, switchboard: Switchboard, observe: Callable[[], Observation]) -> None:
        """Put those techniques of the plan in force that apply to this training; name the others."""
        facts = Facts(self._job.machine, observe())
        if facts.observation.obstacles:
            self.say(f"the plan is not applied: {'; '.join(facts.observation.obstacles)}")
            return
        for name in list(plan.techniques):
            # what belongs to the process was decided before it started
            reasons = CATALOG[name].refuse(facts) if CATALOG[name].scope == "live" else []
            if not reasons:
                continue
            self.say(f"{name} does not apply here and is left out: {'; '.join(reasons)}")
            plan = plan.without(name)
        while plan:
            try:
                switchboard.switch(plan, prepare=True)  # as it was when its trial was timed
                return
            except NotApplicable as error:
                name = switchboard.failed
                self.say(f"{name} does not apply here and is left out: {error}")
                plan = plan.without(name)

    def tell_proofs(self, switchboard: Switchboard, in_steps: bool = True) -> None:
        """Say which techniques have no effect, and what was changed in the training itself. ``in_steps``: of
        those that make steps shorter; else of the others, whose turn comes with an epoch's.
        """
        for proof in switchboard.proofs():
            if ("steps" in CATALOG[proof.technique].parts) is not in_steps:
                continue
            if not proof.effective:
                self.say(f"{proof.technique} has no effect here: {proof.evidence}")
            elif CATALOG[proof.technique].changes_training(switchboard.plan.techniques[proof.technique]):
                self._note(f"{proof.technique}: {proof.evidence}")

    def ended(self, due: Plan, steps: int, delay: int, training: Training, switchboard: Switchboard) -> bool:
        """The script has ended after so many steps: say what of the plan was not in force. ``due``: what
        waited for a model to be called; ``delay``: the steps after which all the rest is in force. False
        where that is less than ``--strict`` demands.
        """
        self._is_over = True
        waiting = [name for name in due.techniques if CATALOG[name].scope == "live"]
        if not due and 0 < steps <= delay:
            self.tell_proofs(switchboard)
        if not due and steps:
            self.tell_proofs(switchboard, in_steps=False)
        elif waiting:
            why = "it trains no model (torch.nn.Module) that it calls" if steps else "no training was seen"
            why = "; ".join(training.obstacles) or why
            self.say(f"{', '.join(waiting)} of the plan could not be applied: {why}")
        return not self._missed

    def say_it_is_lost(self, detail: str, bug: bool) -> None:
        """From here on the script runs without us. ``bug``: by a bug of hasten's."""
        if bug:
            self.say(
                "something of hasten's own failed, which is a bug in hasten and none of the script's; the "
                f"script runs on without it. Please report this:\n{detail.rstrip()}"
            )
        else:
            self.say(f"the script runs on without what of its plan is switched while it trains: {detail}")

    def say(self, text: str) -> None:
        """Say what is not as the plan wants it."""
        self._note(text)
        self._missed = self._missed or self._job.strict
        if self._job.strict and not self._is_over:
            say("hasten: stopping, as --strict asks")
            sys.stdout.flush()
            os._exit(2)

    def _note(self, text: str) -> None:
        if self._summarizer is not None:
            self._summarizer.remark(text)
        if self._job.own_group is None or script_side.is_main():  # or each rank would say it
            say(f"hasten: {text}", lines=True)
