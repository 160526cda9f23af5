"""Two plans compared inside one running training: blocks of steps in the order A B B A, then B A A B, ...

Both share process, data, memory layout and moment. An ABBA block is within one worker; when the script ends,
the trial continues in the next one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import median

from ...errors import WorkerError
from ...inside.techniques.catalog import came_too_late, changing, slow_to_set_up, starts_after
from ...records.observation import Step
from ...records.plan import Plan
from ...records.trial import Trial
from ..base import late, process_part, without_effect
from ..trials import Trials
from ..workers.ending import BudgetOver, PlanRefused, ScriptEnded, ScriptOver
from ..workers.process_start import START_SECONDS
from ..workers.stopwatch import Part
from ..workers.worker import Worker
from .abba_blocks import LONG_SECONDS, Comparison, TooLate, TrialFailed, Untimable
from .blocks import Block, measure
from .epoch_ends import EpochEnds
from .quiet import Quiet
from .schedule import BLOCKS, Schedule
from .steps import Rhythm, as_of_late, fastest_cycle, of_this_training, spoilt

_RECENT = 20  # steps
_PATIENCE, _LEAST_PATIENCE = 2, 40.0  # times a comparison's seconds, and seconds: for b's set-up
_EMPTY_WORKERS = 3  # in a row that ended without one ABBA block: the script is too short


class _Disturbed(Exception):
    """Other programs disturbed a block: its ABBA block is set aside."""


class LiveBench:
    """Keeps one worker across trials, as long as its process suits them and its script goes on."""

    def __init__(
        self, trials: Trials, rhythm: Rhythm, quiet: Quiet | None = None, ends: EpochEnds | None = None
    ) -> None:
        self._trials = trials
        self._quiet = quiet or Quiet()
        self._ends = ends or EpochEnds(rhythm)
        self._noted = 0  # steps of the current worker
        self._first = rhythm  # that each process begins with: see ``_follow``
        self._take(rhythm)
        self._worker: Worker | None = None
        self._settled: set[Plan] = set()
        self.shows_after: Mapping[str, int] = {}  # steps after which techniques have something to gain
        self.from_first: frozenset[str] = frozenset()  # techniques that came too late in a training
        self.untimable = ""  # why no block of this script can be timed
        self._has_timed = False  # an ABBA block

    def _take(self, rhythm: Rhythm) -> None:
        self._rhythm, self._schedule = rhythm, Schedule.of(rhythm)

    def compare(self, a: Plan, b: Plan, seconds: float) -> Trial:
        """``b`` against ``a``; they may only differ in live techniques."""
        clock, ends = self._trials.limit.clock, self._ends
        began = clock()
        self._take(replace(self._rhythm, steps_in_all=ends.script_steps, planned_steps=ends.planned_steps))
        patience, slow = max(_LEAST_PATIENCE, _PATIENCE * seconds), slow_to_set_up(b)
        comparison = Comparison(self._rhythm.between(a, b), patience, slow, slow - a.techniques.keys())
        failure, cut_short, too_late, gathered, empty = None, False, False, 0, 0
        try:
            while not comparison.decided and (clock() - began < seconds or comparison.too_few):
                try:
                    comparison.add(*self._abba_block(a, b, comparison))
                except _Disturbed:
                    continue
                except ScriptOver as over:
                    self._note_end(over.ended)
                    self.close()
                    if over.ended.how != "completed":
                        raise TrialFailed(str(over)) from None
                    length = over.ended.steps_in_all
                    if not (changing(a) or changing(b)):
                        self._ends.script_ended(length)
                    empty = 0 if comparison.gathered > gathered else empty + 1
                    if empty and self._rhythm.steps_in_all != length:  # now it is known
                        self._take(replace(self._rhythm, steps_in_all=length))
                    gathered = comparison.gathered
                    if empty >= _EMPTY_WORKERS:
                        raise TrialFailed("the script ends before one comparison is done") from None
        except BudgetOver as over:
            self.close()
            cut_short = True
            failure = str(over) if comparison.too_few else None
        except TrialFailed as error:
            failure, too_late = str(error), isinstance(error, TooLate)
            if too_late or isinstance(error, Untimable):
                self.close()
            if isinstance(error, Untimable) and not self._has_timed:
                self.untimable = failure
        except (PlanRefused, WorkerError) as error:
            self.close()
            failure = str(error)
        trial, shows = comparison.trial(a, b, clock() - began, failure), late(a, b, self.shows_after)
        trial = replace(trial, cut_short=cut_short, too_late=too_late, late=shows)
        return replace(trial, script_steps=ends.script_steps)

    def has_worker_for(self, plan: Plan) -> bool:
        return self._worker is not None and self._fixed(self._worker.plan) == self._fixed(plan)

    def _fixed(self, plan: Plan) -> Plan:
        """What a process has of the plan from its first step to its end."""
        return process_part(plan, self.from_first)

    def starts(self, plan: Plan) -> int:
        """Processes that a comparison with ``plan`` starts at least."""
        return self._schedule.processes() - self.has_worker_for(plan)

    def seconds_until_it_shows(self, a: Plan, b: Plan, step_seconds: float) -> float:
        """Before the two are compared. ``step_seconds``: where no worker is under way that tells."""
        wait = late(a, b, self.shows_after)
        if not wait:
            return 0.0
        seen: Sequence[Step] = self._worker.history if self._worker and self.has_worker_for(a) else ()
        if seen:
            step_seconds = median(step.seconds for step in seen[-_RECENT:])
        waits = max(0, wait - of_this_training(seen)) + (self._schedule.processes(wait) - 1) * wait
        return waits * step_seconds

    def least_steps(self, plan: Plan) -> int:
        """Steps that a comparison with ``plan`` trains at least."""
        return self._schedule.least_steps(self.starts(plan))

    def close(self) -> None:
        if self._worker is not None:
            self._worker.stop()
            self._worker = None
        self._settled.clear()
        self._noted = 0

    def _ready_worker(self, a: Plan, b: Plan) -> Worker:
        process_plan, taken = self._fixed(a), len(self._worker.history) if self._worker else 0
        ends = self._ends.end_known(a, b, taken + BLOCKS * self._schedule.block)
        if self._worker is None or ends or self._fixed(self._worker.plan) != process_plan:
            self.close()
            self._trials.rehearse(process_plan)
            self._worker = self._trials.worker(process_plan)
            self._rhythm = self._rhythm.with_usual(self._first)
            with self._trials.stopwatch.on("starting"):
                self._worker.wait_started()
            if untimed := self._schedule.warmup + starts_after(process_plan):
                with self._trials.stopwatch.on("settling"):
                    self._worker.steps(untimed)
        return self._worker

    def _abba_block(self, a: Plan, b: Plan, comparison: Comparison) -> tuple[float | None, bool]:
        """log(b / a) of one ABBA block; None if a block had too few regular steps to be timed. And whether
        other programs disturbed it.
        """
        if self.untimable:
            raise Untimable(self.untimable)
        if not self._schedule.block:
            raise TrialFailed(self._schedule.too_short)
        wait = late(a, b, self.shows_after)
        self._check_length(wait)
        worker = self._ready_worker(a, b)
        self._train_until(wait, worker, a)
        order = (a, b, b, a) if comparison.gathered % 2 == 0 else (b, a, a, b)
        logs, contended = {a: 0.0, b: 0.0}, False
        blocks: list[tuple[Plan, Block]] = []
        begun = len(worker.history)
        comparison.step_seconds_a = None  # of another process, or of another training in this one
        for plan in order:
            block = self._block(worker, plan, comparison, is_b=plan == b)
            contended = contended or self._quiet.contended
            if block is None:
                comparison.untimed_a += plan == a
                self._follow(worker, comparison, a, b)
                return None, contended
            logs[plan] += math.log(block.sample_seconds) / 2
            blocks.append((plan, block))
        if any(step.new_model for step in worker.history[begun:]):
            return None, contended  # another training started: the plans' blocks may differ in model
        for plan, block in blocks:
            (comparison.blocks_b if plan == b else comparison.blocks_a).append(block)
        self._has_timed = True
        return logs[b] - logs[a], contended

    def _follow(self, worker: Worker, comparison: Comparison, a: Plan, b: Plan) -> None:
        """A training may come to evaluate, or to begin a pass, in steps that had nothing of it before."""
        self._rhythm = as_of_late(self._rhythm, worker.history)
        comparison.timed = self._rhythm.between(a, b)

    def _check_length(self, wait: int) -> None:
        length = self._ends.script_steps
        if wait and length is not None and wait + BLOCKS * self._schedule.block > length:
            raise TrialFailed(f"it can gain something after {wait:,} steps, and the script takes {length:,}")

    def _train_until(self, wait: int, worker: Worker, plan: Plan) -> None:
        missing = wait - of_this_training(worker.history)
        if missing > 0:
            self._switch(worker, plan)
            with self._trials.stopwatch.on("settling"):
                worker.steps(missing)

    def _switch(self, worker: Worker, plan: Plan) -> None:
        """Raises TrialFailed if the worker cannot, TooLate if another may from its first step on."""
        self._note(worker)
        if why_not := worker.switch(plan):
            if names := came_too_late(why_not) - self.from_first:
                self.from_first |= names
                raise TooLate(why_not)
            raise TrialFailed(why_not)

    def _block(self, worker: Worker, plan: Plan, comparison: Comparison, is_b: bool) -> Block | None:
        self._switch(worker, plan)
        if plan not in self._settled:
            self._settle(worker, comparison, is_b)
            self._settled.add(plan)
        before = self._quiet.begin()
        steps = self._trained(worker, self._schedule.block, "timing", comparison, is_b)
        disturbed = self._quiet.disturbed(before)
        self._note(worker)
        if why_not := spoilt(steps, self._rhythm):
            self.close()  # its weights are useless for the trials that follow
            raise TrialFailed(why_not)
        proofs = worker.proofs()
        comparison.took_up(worker.setup_seconds, is_b)
        if is_b and not any(step.new_model for step in steps):  # where one appears, effects are counted anew
            comparison.proofs = proofs
            if idle := without_effect(proofs):
                raise TrialFailed(idle)  # more blocks would show no more
        if disturbed:
            raise _Disturbed
        always = any(step.last_batches for step in worker.history[: self._schedule.block])  # of a short pass
        leaves_out = self._schedule.leaves_out_ends and not always
        block = measure(steps, comparison.timed, ends=not leaves_out)
        if block is not None and is_b:
            if not self._quiet.contended:  # other programs may make all short steps many times as long
                comparison.give_up(block.step_seconds)
            comparison.steps_b += steps
        elif block is not None:
            comparison.step_seconds_a = block.step_seconds
        return block

    def _settle(self, worker: Worker, comparison: Comparison, is_b: bool) -> None:
        """Untimed steps. b is given up if it is hopeless in the first of them and in those that follow."""
        left = self._schedule.settling
        first = comparison.settles_in(left) if is_b else left
        steps = self._trained(worker, first, "settling", comparison, is_b)
        if is_b and comparison.hopeless(slow := fastest_cycle(steps, self._rhythm)):
            again = first if slow > LONG_SECONDS else max(first, left - first)
            left -= again
            steps = self._trained(worker, again, "settling", comparison, is_b)
            comparison.give_up(fastest_cycle(steps, self._rhythm), "its first steps were")
        if left > first:
            self._trained(worker, left - first, "settling", comparison, is_b)

    def _trained(
        self, worker: Worker, count: int, part: Part, comparison: Comparison, is_b: bool
    ) -> list[Step]:
        """The worker's next steps. Raises TrialFailed, without the worker, which is in the midst of them, if
        b was set up for too long: some compile anew with every shape of a batch.
        """
        limit = self._trials.limit
        began, usual = limit.clock(), count * (comparison.step_seconds_a or 0.0)
        timeout = START_SECONDS if part == "settling" else None  # it may compile
        most, why = math.inf, ""
        if is_b:
            longest = max((step.seconds for step in worker.history), default=0.0)
            most, why = comparison.most_for(usual, part == "settling", longest)
        try:
            with self._trials.stopwatch.on(part), limit.ending(most):
                steps = worker.steps(count, timeout=timeout)
        except BudgetOver:
            if limit.over:
                raise
            self.close()
            raise TrialFailed(why) from None
        if is_b:
            comparison.waited(limit.clock() - began - usual)
        if any(step.new_model for step in steps):
            comparison.step_seconds_a = None  # of a model that may be of another size
        return steps

    def _note(self, worker: Worker) -> None:
        """Note what came between epochs since the last time, all of it under the plan in force."""
        steps = worker.history[self._noted :]
        if steps:
            self._ends.note(worker.plan, steps, self._noted)
            self._noted += len(steps)

    def _note_end(self, ended: ScriptEnded) -> None:
        """Note the script's remaining steps, and what came after its last one."""
        worker = self._worker
        if worker is None or ended.how != "completed":
            return
        steps = [*worker.history[self._noted : ended.steps_in_all - len(ended.steps)], *ended.steps]
        self._ends.note(worker.plan, steps, self._noted)
        self._ends.note_tail(worker.plan, ended.rest)
