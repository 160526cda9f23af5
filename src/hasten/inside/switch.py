"""Which techniques are on in this worker. Switches a plan on and off between two steps."""

from __future__ import annotations

import time
from contextlib import suppress

from ..records.plan import BASELINE, Plan
from ..records.trial import Proof
from .techniques.base import Technique
from .techniques.catalog import CATALOG
from .techniques.exclusion import within
from .training import NotApplicable, Training


class Switchboard:
    """The plan in force. Each technique that is on has one instance here, which keeps what its removal
    needs.
    """

    def __init__(self, training: Training) -> None:
        self._training = training
        self._on: dict[str, Technique] = {}
        self._left_out: dict[str, str] = {}  # technique of the plan: why it no longer applies
        self._started: dict[str, Technique] = {}  # of process scope: for the life of the process
        self._not_started: dict[str, str] = {}  # technique of process scope: why it could not be started
        self.plan = BASELINE
        self.failed = ""  # the technique that was not applicable at the last switch
        self._left_on: dict[str, str] = {}  # technique that is off, but for what it says here
        self._told_in_steps = 0.0  # set-up time in steps reported so far
        self._earlier: dict[str, Proof] = {}  # from before late roots and optimizers were added
        self._taken_in_at = -1  # after this many steps
        self._late_seconds = 0.0  # set-up for late roots and optimizers
        self.spared_seconds = 0.0  # of set-up that a run pays and this process did not

    def start(self, plan: Plan) -> None:
        """Start the plan's techniques of process scope, before the script goes on.

        One that cannot be started is reported when the plan is put in force.
        """
        starting = plan.only({name for name in plan.techniques if CATALOG[name].scope == "process"})
        while (apart := within(starting, CATALOG)) is not None:
            self._not_started[apart.second] = str(apart)
            starting = starting.without(apart.second)
        for name, settings in starting.techniques.items():
            technique = self._started[name] = CATALOG[name]()
            try:
                technique.start(self._training, settings)
            except NotApplicable as error:
                self._not_started[name] = str(error)
            except Exception as error:
                self._not_started[name] = f"it failed here with {type(error).__name__}: {error}"

    def switch(self, plan: Plan, prepare: bool = False) -> float:
        """Put ``plan`` in force; with ``prepare`` do its set-up now (fill caches). Returns the seconds
        that this takes in a run: as here, where no other process of a tune has done part of it.

        What both plans have in common stays as it is. Raises NotApplicable, with nothing left
        installed, if a technique finds that it cannot take effect, or two of them exclude each other.
        """
        began = self._clock()
        apart = within(plan, CATALOG)
        if plan != self.plan:
            self._taken_in_at = -1
        if apart is not None:
            self.switch(BASELINE)
            self.failed = apart.second
            raise NotApplicable(str(apart))
        for name in reversed(list(self._on)):
            if self.plan.techniques[name] != plan.techniques.get(name):
                self._remove(name)
        self.plan = plan
        self._left_out = {}
        try:
            for name in plan.techniques:
                if name in self._on:
                    continue
                self.failed = name
                self._install(name)
                if prepare:
                    self._prepare(name)
        except NotApplicable:
            self.switch(BASELINE)
            raise
        self._told_in_steps = self.seconds_in_steps()
        return self._clock() - began

    def refresh(self, prepare: bool = False) -> None:
        """Add roots and optimizers that appeared since the last switch; with ``prepare`` do their set-up
        now.

        A technique of the plan that no longer applies is left out, and its proof fails: the script must not
        meet our exceptions.
        """
        if not self._training.changed:
            return
        self._training.changed = False
        self._earlier = {proof.technique: proof for proof in self.proofs() if proof.effective}
        plan, began = self.plan, self._clock()
        self.switch(BASELINE)
        self.plan, self._taken_in_at = plan, self._training.steps
        for name in plan.techniques:
            try:
                self._install(name)
                if prepare:
                    self._prepare(name)
            except NotApplicable as error:
                if name in self._on:
                    self._remove(name)
                self._left_out[name] = str(error)
        self._told_in_steps = self.seconds_in_steps()
        self._late_seconds += self._clock() - began if prepare and plan else 0.0

    @property
    def left_on(self) -> tuple[str, str] | None:
        """The technique of an earlier plan that could not be switched off entirely, and why; None if all of
        them are off. What is measured now is not of the plan in force.
        """
        return next(iter(self._left_on.items()), None)

    def proofs(self) -> list[Proof]:
        """One proof for each technique of the plan, counted since it was switched on, or since models or
        optimizers appeared; if no step was taken since, from before.
        """
        left_out = [Proof(name, False, reason) for name, reason in self._left_out.items()]
        found = [technique.proof(self._training) for technique in self._on.values()]
        if self._training.steps == self._taken_in_at:
            found = [one if one.effective else self._earlier.get(one.technique, one) for one in found]
        return found + left_out

    def seconds_in_steps(self) -> float:
        """Set-up of the techniques in force that could only happen during steps."""
        return self._late_seconds + sum(technique.seconds_in_steps() for technique in self._on.values())

    def latest_seconds_in_steps(self) -> float:
        """The part of it since the last call, or since another plan was put in force."""
        before, self._told_in_steps = self._told_in_steps, self.seconds_in_steps()
        return max(0.0, self._told_in_steps - before)

    def _remove(self, name: str) -> None:
        technique = self._on.pop(name)
        technique.remove(self._training)
        if why := technique.left_on():
            self._left_on[name] = why

    def _clock(self) -> float:
        """Differences of it are what set-up takes in a run."""
        return time.perf_counter() + self.spared_seconds

    def _prepare(self, name: str) -> None:
        """Raises NotApplicable for any failure, including one in the script's own code."""
        try:
            self._on[name].prepare(self._training)
            self.spared_seconds += self._on[name].spared_seconds()
        except NotApplicable:
            raise
        except Exception as error:
            raise NotApplicable(f"it failed here with {type(error).__name__}: {error}") from error

    def _install(self, name: str) -> None:
        """Raises NotApplicable, even if the technique fails unexpectedly."""
        if name in self._not_started:
            raise NotApplicable(self._not_started[name])
        technique = self._started.get(name) or CATALOG[name]()
        try:
            technique.install(self._training, self.plan.techniques[name])
        except NotApplicable:
            raise
        except Exception as error:
            with suppress(Exception):
                technique.remove(self._training)
            raise NotApplicable(f"it failed here with {type(error).__name__}: {error}") from error
        self._on[name] = technique
        self._left_on.pop(name, None)
