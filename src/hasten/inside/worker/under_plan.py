"""A run under a plan, without a coordinator: techniques that apply are put in force; those that do not, or
have no effect, are reported to the user.
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...records.facts import Facts
from ...records.observation import Observation
from ...records.plan import Plan
from ...saying import say
from .. import script_side
from ..job import Job
from ..techniques.catalog import CATALOG, starts_after
from ..training import NotApplicable
from .run_summary import Summarizer

if TYPE_CHECKING:
    from ..switch import Switchboard
    from ..training import Training

_PROOF_AFTER_STEPS = 20  # of a plan in force
_MOST_TURNS = 2
_NO_EFFECT = "it has no effect"
_NO_MORE = " (so it goes by turns, and is not said again)"
_FEW_STEPS = 5  # too few to report: the first batch was made before the plan was in force


class UnderPlan:
    """``summarizer`` keeps what was said, for the summary at the end of the run."""

    def __init__(self, job: Job, summarizer: Summarizer | None) -> None:
        self._is_over = False  # the script has ended: there is nothing left to stop
        self._missed = False  # something that --strict requires
        self._job = job
        self._summarizer = summarizer
        self._where = "here"
        self._began = 0  # steps done when the plan was last put in force
        self._told = False  # whether the proofs since then were reported
        self._delay = 0  # steps after that until all of it is in force
        self._left_out: dict[str, str] | None = None  # why, by technique; "": the whole plan
        self._why_not: dict[str, str] | None = None  # as reported
        self._turns: Counter[tuple[str, str | None]] = Counter()  # how often it was left out, and why
        self._idle: set[str] = set()  # has no effect, as reported
        self._worked: set[str] = set()  # had an effect before models or optimizers appeared, or until the end
        self._noted: set[str] = set()  # changes the training, as reported
        self._waits = False  # for the step at which a restarted run had stopped

    def put_in_force(
        self, plan: Plan, switchboard: Switchboard, seen: Sequence[Observation], steps: int = 0
    ) -> None:
        """Put the techniques of the plan in force that apply to this training; the others are reported when a
        step has ended. Call it again, with nothing in force, when models or optimizers appear: what was
        reported before is not repeated.

        ``seen``: the training and, if another has begun since the last time, only its parts: a technique is
        put in force if it applies to either. ``steps``: done so far.
        """
        if steps > 1:
            self._where = f"for the model or optimizer that came after step {steps}"
        self._began, self._told = steps, False
        self._delay = starts_after(plan)
        obstacles = seen[0].obstacles
        left_out = {"": "; ".join(obstacles)} if obstacles else self._refused(plan, seen)
        if not obstacles:
            left_out |= _switched(switchboard, plan.only(set(plan.techniques) - set(left_out)))
        self._left_out = left_out

    def _refused(self, plan: Plan, seen: Sequence[Observation]) -> dict[str, str]:
        """Why techniques do not apply. What was in force may have changed what is observed, and is checked
        again if another training began.
        """
        asked = set(plan.techniques) if self._left_out is None or len(seen) > 1 else set(self._left_out)
        found = {}
        for name in plan.techniques:
            if CATALOG[name].scope != "live" or name not in asked:
                continue  # what belongs to the process was decided before it started
            reasons = [CATALOG[name].refuse(Facts(self._job.machine, one)) for one in seen]
            if all(reasons):
                found[name] = "; ".join(reasons[-1])
        return found

    def wait(self) -> None:
        """The script is brought to the step where it stopped, and computes nothing: there is nothing to tell
        until ``goes_on``.
        """
        self._waits = True

    def goes_on(self, steps: int) -> None:
        """After this many steps it trains again."""
        self._waits, self._told, self._began = False, False, steps

    def step_ended(self, steps: int, switchboard: Switchboard) -> None:
        """``steps`` steps have ended."""
        if self._waits:
            return
        if self._left_out is not self._why_not:
            self._tell_left_out(self._left_out or {})
        if steps == self._began + self._delay + _PROOF_AFTER_STEPS:
            self.tell_proofs(switchboard)

    def _tell_left_out(self, found: dict[str, str]) -> None:
        """Report what was not left out before, or for another reason. If it alternates, report it twice."""
        before, self._why_not = self._why_not or {}, self._left_out
        for name, why in found.items():
            if before.get(name) != why and (last := self._last_words(name, why)) is not None:
                left_out = f"{name} does not apply {self._where} and is left out: {why}{last}"
                self.say(left_out if name else f"the plan is not applied: {why}{last}")
        for name in before.keys() - found.keys() - {""}:
            if (last := self._last_words(name, None)) is not None:
                self._note(f"{name} applies {self._where}, and is in force from there on{last}")

    def _last_words(self, name: str, why: str | None) -> str | None:
        """The end of its report; None if it was reported often enough."""
        self._turns[name, why] += 1
        often = self._turns[name, why]
        return None if often > _MOST_TURNS else _NO_MORE if often == _MOST_TURNS else ""

    def so_far(self, switchboard: Switchboard, steps: int, least: int = _FEW_STEPS) -> None:
        """Report the proofs since the plan was put in force, after enough steps, unless already done."""
        if not (self._told or self._waits) and steps - self._began >= least:
            self.tell_proofs(switchboard)
        self._worked |= {proof.technique for proof in switchboard.proofs() if proof.effective}

    def tell_proofs(self, switchboard: Switchboard, in_steps: bool = True) -> None:
        """Report techniques without effect, and changes to the training itself. ``in_steps``: for those that
        shorten steps; otherwise for the others, which act with an epoch.
        """
        self._told = self._told or in_steps
        for proof in switchboard.proofs():
            name = proof.technique
            if ("steps" in CATALOG[name].parts) is not in_steps:
                continue
            if not proof.effective:
                known = name in (self._idle if in_steps else self._worked)
                if not known and (last := self._last_words(name, _NO_EFFECT)) is not None:
                    self.say(f"{name} has no effect {self._where}: {proof.evidence}{last}")
                self._idle.add(name)
                continue
            self._idle.discard(name)
            if CATALOG[name].changes_training(switchboard.plan.techniques[name]) and name not in self._noted:
                self._noted.add(name)
                self._note(f"{name}: {proof.evidence}")

    def ended(self, due: Plan, steps: int, training: Training, switchboard: Switchboard) -> bool:
        """The script has ended after this many steps: report what of the plan was not in force. ``due``: what
        waited for something to train. False if that is less than ``--strict`` demands.
        """
        self._is_over = True
        waiting = [name for name in due.techniques if CATALOG[name].scope == "live"]
        if not due and steps:
            self.so_far(switchboard, steps, 1 if steps <= self._delay else _FEW_STEPS)
            self.tell_proofs(switchboard, in_steps=False)
            if self._summarizer is not None:
                self._summarizer.worked = tuple(sorted(self._worked))
        elif waiting:
            why = "; ".join(training.obstacles) or "no training was seen"
            self.say(f"{', '.join(waiting)} of the plan could not be applied: {why}")
        return not self._missed

    def say_it_is_lost(self, detail: str, bug: bool) -> None:
        """From here on the script runs without us. ``bug``: because of a bug in hasten."""
        if bug:
            self.say(
                "part of hasten failed, which is a bug in hasten and not in the script; the "
                f"script runs on without it. Please report this:\n{detail.rstrip()}"
            )
        else:
            self.say(f"the script runs on without what of its plan is switched while it trains: {detail}")

    def say(self, text: str) -> None:
        """Report what deviates from the plan."""
        self._note(text)
        self._missed = self._missed or self._job.strict
        if self._job.strict and not self._is_over:
            say("hasten: stopping, as --strict asks")
            sys.stdout.flush()
            os._exit(2)

    def _note(self, text: str) -> None:
        if self._summarizer is not None:
            self._summarizer.remark(text)
        if self._job.own_group is None or script_side.is_main():  # otherwise each rank would report it
            say(f"hasten: {text}", lines=True)


def _switched(switchboard: Switchboard, plan: Plan) -> dict[str, str]:
    """Put as much of ``plan`` in force as possible; returns why not the rest."""
    found: dict[str, str] = {}
    while plan:
        try:
            switchboard.switch(plan, prepare=True)  # as in its timed trial
            break
        except NotApplicable as error:
            found[switchboard.failed] = str(error)
            plan = plan.without(switchboard.failed)
    return found
