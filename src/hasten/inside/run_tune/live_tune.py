"""Tries techniques in the steps of a run, and trains on under those that make it faster.

It is called after every step, and switches plans between two steps, as a live comparison of a tune does; the
process, its data and its order of steps are the run's own. The cost of trying - set-up, and steps under plans
that turn out slower - is counted and has a limit. Any failure here ends the trying: the run goes on under the
plan found so far.
"""

from __future__ import annotations

import os

from ...records.plan import BASELINE, Plan
from ...records.run_tuning import RunTuning
from ..observing.observer import clock
from ..observing.raw_step import RawStep
from ..switch import Switchboard
from ..techniques.catalog import CATALOG
from ..techniques.exclusion import against
from ..training import NotApplicable, Training
from .announcing import NOT_TRIED, Outcome, outcome_words
from .block_lengths import course_of
from .contest import Contest, step_seconds
from .own_trial import OwnTrial
from .promising import Trying, promising
from .run import Run

_FAR_TOO_MUCH = 2.0  # times what may be lost
_WARMUP_STEPS, _MOST_WATCHED = 20, 256
_SETTLING_CYCLES = 3  # not timed after a switch to a plan that was not in force before; after others, one


class LiveTune:
    """Tries techniques one after another. ``found``: the plan in force while nothing is tried."""

    def __init__(
        self,
        tuning: RunTuning,
        plan: Plan,
        training: Training,
        switchboard: Switchboard,
        run: Run,
    ) -> None:
        self._tuning, self.found, self._run = tuning, plan, run
        self._training, self._switchboard = training, switchboard
        self._here = os.getpid()
        self._waiting: list[Trying] | None = None  # to be tried; None: it is not known yet
        self._trial: OwnTrial | None = None
        self.active = tuning.at_once
        self._over = False
        self._doubted: list[str] = []  # techniques in force whose gain is checked again
        self._since, self._since_clock = 0, clock()  # steps, and the time, since the trying ended
        self._begin_again()

    def _begin_again(self) -> None:
        self._seen: list[RawStep] = []  # of the current block, or watched before the first one
        self._skip = _WARMUP_STEPS
        self._waiting, self._trial = None, None
        self._lost = self._before = 0.0
        self._plain_steps, self._plain = 0, 0.0  # without what is tried: steps, and their seconds
        self._outcomes: list[Outcome] = []
        self._tried_steps = 0

    # ---- what happens
    def step_ended(self, step: RawStep) -> None:
        """Call it in the thread that trains, once the plan in force knows the step."""
        if self._over:
            return
        try:
            if self.active:
                self._tried_steps += 1
                self._step(step)
            else:
                self._since += 1
                self._look_at_the_clock()
        except Exception as error:  # any error: the training matters more than its speed
            self._fails(error)

    def parts_came(self) -> None:
        """New models or optimizers will be trained next: nothing is tried until they have warmed up."""
        if self.active and not self._over:
            self._switchboard.switch(BASELINE)
            outcomes, lost = self._outcomes, self._lost
            self._begin_again()
            self._outcomes, self._lost = outcomes, lost

    def script_ended(self) -> None:
        """If the script ends while something is tried, say so; what was not finished is not judged."""
        if self.active and not self._over and self._tried_steps:
            self._over = True
            self._run.say(outcome_words(self._outcomes, self.found, self._before, 0.0, ended=True))

    # ---- trying
    def _step(self, step: RawStep) -> None:
        if os.getpid() != self._here:  # a child of the script's that trains on its own
            self._over = True
            return
        self._count(step)
        if self._skip:
            self._skip -= 1
            if not self._skip:
                self._block_begins()
            return
        self._seen.append(step)
        if self._waiting is None:
            self._watched()
        elif len(self._seen) >= self._course.block_steps:
            self._block_ended()

    def _count(self, step: RawStep) -> None:
        """Add the step to the cost of trying: by means, because other programs lengthen single steps."""
        trial = self._trial
        if trial is not None and (step.evaluations, step.restarts) == self._course.usual:
            if trial.contest.next_is_b:
                trial.steps, trial.seconds = trial.steps + 1, trial.seconds + step.seconds
            elif not self._skip:
                self._plain_steps, self._plain = self._plain_steps + 1, self._plain + step.seconds

    @property
    def _each(self) -> float:
        """The mean time of a step without what is tried."""
        return self._plain / self._plain_steps if self._plain_steps else self._before

    def _watched(self) -> None:
        """Once enough steps were seen, choose what to try and how long a block is."""
        course = course_of(self._seen)
        if course is None:
            if len(self._seen) >= _MOST_WATCHED:
                self._run.say("nothing was tried while training: no two of its steps are alike")
                self._rests()
            return
        self._course, self._before = course, self._before or course.each
        self._allowed = course.may_lose(self._tuning)
        self._plain_steps, self._plain = 0, 0.0
        facts = self._run.facts(self._seen, course.cycle)
        done = {outcome.name for outcome in self._outcomes}
        known = [] if self._training.obstacles else promising(facts, self._tuning, self.found)
        self._waiting = [one for one in known if one.technique.name not in done]
        self._next()

    def _next(self) -> None:
        """Begin with the next technique. If there is none, or trying may cost no more, it ends."""
        assert self._waiting is not None
        while self._doubted:
            name = self._doubted.pop()
            if name in self.found.techniques:
                self._trial = OwnTrial(name, self.found.without(name), Contest(), without=True)
                if self._switch():
                    return
        while self._waiting:
            trying = self._waiting[0]
            name = trying.technique.name
            settings = trying.settings[0]
            if self._lost + trying.setup_seconds > self._allowed:
                self._waiting.pop(0)
                self._note(name, NOT_TRIED)
                continue
            self._waiting[:1] = trying.rest()
            if against(self.found, name, settings) is not None:
                continue
            self._trial = OwnTrial(name, self.found.adding(name, settings), Contest())
            if self._switch():
                return
        self._ends()

    def _switch(self) -> bool:
        """Switch to the plan of the next block. False if it does not apply, or the technique on trial cannot
        be switched off: then the trial is undone.
        """
        trial = self._trial
        assert trial is not None
        is_b = trial.contest.next_is_b
        began = clock()
        try:
            self._switchboard.switch(trial.plan if is_b else self.found, prepare=True)
            left = self._switchboard.left_on
            if left is not None and left[0] == trial.name:
                raise NotApplicable(left[1])
        except NotApplicable as error:
            trial.switching += clock() - began
            self._note(trial.name, str(error))
            self._back()
            return False
        trial.switching += clock() - began
        self._skip = self._course.cycle * (_SETTLING_CYCLES if is_b and not trial.settled else 1)
        self._seen.clear()
        return True

    def _block_begins(self) -> None:
        self._seen.clear()
        if self._run.sync():
            self._block_began = clock()

    def _block_ended(self) -> None:
        trial = self._trial
        assert trial is not None
        is_b = trial.contest.next_is_b
        seconds = step_seconds(self._seen, self._course.cycle, self._course.usual)
        if seconds is not None and self._run.sync():  # a GPU computes later than its work is launched
            seconds = (clock() - self._block_began) / len(self._seen)
        if is_b:
            trial.settled = True
            idle = [p for p in self._switchboard.proofs() if p.technique == trial.name and not p.effective]
            if idle:
                self._drop(f"no effect: {idle[0].evidence}")
                return
        verdict = trial.contest.block(seconds)
        if verdict == "faster":
            self._adopt()
        elif verdict:
            self._drop(verdict)
        elif self._is_too_much(trial):
            self._drop("too expensive")
        elif not self._switch():
            self._next()

    def _is_too_much(self, trial: OwnTrial) -> bool:
        """Whether the trial has cost too much. Its set-up is paid: so it is compared at least once."""
        lost = self._lost + trial.lost(self._each)
        if not trial.contest.compared:
            return lost > _FAR_TOO_MUCH * self._allowed
        return lost > self._allowed and not trial.contest.looks_faster

    def _adopt(self) -> None:
        trial = self._trial
        assert trial is not None
        self.found = trial.plan
        self._note(trial.name, "no gain any more" if trial.without else "", trial.contest.ratio)
        self._settle()
        self._run.adopt(self.found)
        self._seen.clear()
        self._waiting, self._skip = None, self._course.cycle  # a gain has changed what takes the time

    def _settle(self) -> None:
        if self._trial is not None:
            self._lost += max(0.0, self._trial.lost(self._each))
        self._trial = None

    def _drop(self, why: str) -> None:
        trial = self._trial
        assert trial is not None
        if not trial.without:
            self._note(trial.name, why, trial.contest.ratio)
        self._back()
        self._next()

    def _back(self) -> None:
        """Switch back to the plan in force without the trial."""
        self._settle()
        self._switchboard.switch(self.found)
        self._seen.clear()

    def _note(self, name: str, why: str, ratio: float = 1.0) -> None:
        self._outcomes.append(Outcome(name, why, ratio))

    # ---- the end, and again
    def _ends(self) -> None:
        lost = self._lost / max(1e-9, self._before)
        self._run.say(outcome_words(self._outcomes, self.found, self._before, lost))
        self._rests()

    def _rests(self) -> None:
        self.active = False
        self._since, self._since_clock = 0, clock()
        self._seen.clear()
        self._over = self._tuning.again_steps is None and self._tuning.again_seconds is None
        if self._over and not self.found:
            self._run.let_go()

    def _look_at_the_clock(self) -> None:
        steps, seconds = self._tuning.again_steps, self._tuning.again_seconds
        if (steps is not None and self._since >= steps) or (
            seconds is not None and clock() - self._since_clock >= seconds
        ):
            self.active = True
            self._doubted = [n for n in self.found.techniques if CATALOG[n].scope == "live"]
            self._begin_again()

    def _fails(self, error: Exception) -> None:
        self._over, self.active = True, False
        self._run.adopt(self.found)
        self._run.say(
            f"stopped trying techniques, and the run goes on under what was found: "
            f"{type(error).__name__}: {error}"
        )
