"""Two plans compared inside one running training: blocks of steps in the order A B B A, then B A A B, and
so on.

Both share process, data, memory layout and moment. An ABBA block is within one worker; when the script ends,
the trial continues in the next one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean, median

from ...errors import WorkerError
from ...inside.techniques.catalog import changing, starts_after
from ...records.observation import Step
from ...records.phases import usual_phases
from ...records.plan import Plan
from ...records.trial import Proof, Trial
from ..base import process_part, without_effect
from ..trials import Trials
from ..workers.ending import BudgetOver, PlanRefused, ScriptEnded, ScriptOver
from ..workers.starting import START_SECONDS
from ..workers.worker import Worker
from .decisions import clearly_worse, is_clear, known_well
from .epoch_ends import EpochEnds
from .quiet import Quiet
from .statistics import robust_interval
from .steps import TOO_FEW_REGULAR, Block, Rhythm, measure, spoilt

_LEAST_ABBA_BLOCKS, _LEAST_IF_SLOW = 5, 3
MOST_ABBA_BLOCKS = 24
_BLOCKS, _TIMED_IF_SLOW = 4, 1  # of an ABBA block, and cycles of each
_SETTLING_CYCLES = 3  # untimed, the first time a worker trains under a plan
HOPELESS = 10.0  # times slower
_EMPTY_WORKERS = 3  # in a row that ended without one ABBA block: the script is too short


class _Disturbed(Exception):
    """Other programs disturbed a block: its ABBA block is set aside."""


class TrialFailed(Exception):
    """The comparison cannot win anything, for this reason."""


class LiveBench:
    """Keeps one worker across trials, as long as its process suits them and its script goes on."""

    def __init__(
        self, trials: Trials, rhythm: Rhythm, quiet: Quiet | None = None, ends: EpochEnds | None = None
    ) -> None:
        self._trials = trials
        self._quiet = quiet or Quiet()
        self._ends = ends or EpochEnds(rhythm)
        self._noted = 0  # steps of the current worker
        self._take(rhythm)
        self._worker: Worker | None = None
        self._settled: set[Plan] = set()

    def _take(self, rhythm: Rhythm) -> None:
        self._rhythm = rhythm
        self._warmup_steps = rhythm.warmup_steps(rhythm.warmup_cycles)
        self._untimed = 1 + self._warmup_steps + 2 * _SETTLING_CYCLES * rhythm.cycle
        self._block_steps = rhythm.block_steps(_BLOCKS, self._untimed, _TIMED_IF_SLOW)

    def compare(self, a: Plan, b: Plan, seconds: float) -> Trial:
        """``b`` against ``a``; they may only differ in live techniques."""
        clock = self._trials.limit.clock
        began = clock()
        self._take(replace(self._rhythm, steps_in_all=self._ends.script_steps))
        comparison = _Comparison(self._rhythm.between(a, b))
        failure, cut_short, gathered, empty = None, False, 0, 0
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
            failure = without_effect(comparison.proofs) or None
        except BudgetOver as over:
            self.close()
            cut_short = True
            failure = str(over) if comparison.too_few else without_effect(comparison.proofs) or None
        except TrialFailed as error:
            failure = str(error)
        except (PlanRefused, WorkerError) as error:
            self.close()
            failure = str(error)
        trial = comparison.trial(a, b, clock() - began, failure)
        return replace(trial, cut_short=cut_short, script_steps=self._ends.script_steps)

    def has_worker_for(self, plan: Plan) -> bool:
        return self._worker is not None and process_part(self._worker.plan) == process_part(plan)

    def least_steps(self, plan: Plan) -> int:
        """Steps that a comparison with ``plan`` trains."""
        warmup = 0 if self.has_worker_for(plan) else 1 + self._warmup_steps
        blocks = _BLOCKS * self._rhythm.fewer(_LEAST_ABBA_BLOCKS, _LEAST_IF_SLOW)
        return warmup + _SETTLING_CYCLES * self._rhythm.cycle + blocks * self._block_steps

    def close(self) -> None:
        if self._worker is not None:
            self._worker.stop()
            self._worker = None
        self._settled.clear()
        self._noted = 0

    def _ready_worker(self, process_plan: Plan) -> Worker:
        if self._worker is None or process_part(self._worker.plan) != process_plan:
            self.close()
            self._trials.rehearse(process_plan)
            self._worker = self._trials.worker(process_plan)
            with self._trials.stopwatch.on("starting"):
                self._worker.wait_started()
            untimed = self._warmup_steps + starts_after(process_plan)
            if untimed:
                with self._trials.stopwatch.on("settling"):
                    self._worker.steps(untimed)
        return self._worker

    def _abba_block(self, a: Plan, b: Plan, comparison: _Comparison) -> tuple[float | None, bool]:
        """log(b / a) of one ABBA block; None if a block had too few regular steps to be timed. And whether
        other programs disturbed it.
        """
        if not self._block_steps:
            raise TrialFailed(self._rhythm.too_short(_BLOCKS, self._untimed, _TIMED_IF_SLOW))
        worker = self._ready_worker(process_part(a))
        order = (a, b, b, a) if comparison.gathered % 2 == 0 else (b, a, a, b)
        logs, contended = {a: 0.0, b: 0.0}, False
        blocks: list[tuple[Plan, Block]] = []
        begun = len(worker.history)
        for plan in order:
            block = self._block(worker, plan, comparison, is_b=plan == b)
            contended = contended or self._quiet.contended
            if block is None:
                return None, contended
            logs[plan] += math.log(block.sample_seconds) / 2
            blocks.append((plan, block))
        if any(step.new_model for step in worker.history[begun:]):
            return None, contended  # another training started: the plans' blocks may differ in model
        for plan, block in blocks:
            (comparison.blocks_b if plan == b else comparison.blocks_a).append(block)
        return logs[b] - logs[a], contended

    def _block(self, worker: Worker, plan: Plan, comparison: _Comparison, is_b: bool) -> Block | None:
        self._note(worker)
        why_not = worker.switch(plan)
        if why_not:
            raise TrialFailed(why_not)
        if plan not in self._settled:
            settling = _SETTLING_CYCLES * self._rhythm.cycle
            with self._trials.stopwatch.on("settling"):
                steps = worker.steps(settling, timeout=START_SECONDS)  # it may compile
            self._settled.add(plan)
            if is_b and comparison.hopeless(self._fastest_cycle(steps)):
                comparison.give_up(self._fastest_cycle(worker.steps(settling)))
        with self._trials.stopwatch.on("timing"):
            before = self._quiet.begin()
            steps = worker.steps(self._block_steps)
            disturbed = self._quiet.disturbed(before)
        self._note(worker)
        why_not = spoilt(steps, self._rhythm)
        if why_not:
            self.close()  # its weights are useless for the trials that follow
            raise TrialFailed(why_not)
        proofs = worker.proofs()
        comparison.took_up(worker.setup_seconds, is_b)
        if is_b:
            comparison.proofs = proofs
        if disturbed:
            raise _Disturbed
        block = measure(steps, comparison.timed)
        if block is not None and is_b:
            if not self._quiet.contended:  # other programs may make all short steps many times as long
                comparison.give_up(block.step_seconds)
            comparison.steps_b += steps
        elif block is not None:
            comparison.step_seconds_a = block.step_seconds
        return block

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

    def _fastest_cycle(self, steps: Sequence[Step]) -> float:
        each = self._rhythm.cycle
        return min(fmean(s.seconds for s in steps[at : at + each]) for at in range(0, len(steps), each))


class _Comparison:
    """The measurements of one trial."""

    def __init__(self, timed: Rhythm) -> None:
        self.timed = timed  # by which its blocks are
        self._least = timed.fewer(_LEAST_ABBA_BLOCKS, _LEAST_IF_SLOW)  # ABBA blocks that decide
        self._log_ratios: list[tuple[float, bool]] = []  # each with whether others disturbed it
        self.blocks_a: list[Block] = []
        self.blocks_b: list[Block] = []
        self.steps_b: list[Step] = []
        self.proofs: tuple[Proof, ...] = ()
        self.step_seconds_a: float | None = None  # in the last block
        self._setup_a = self._setup_b = 0.0
        self._untimed = 0

    def hopeless(self, step_seconds_b: float) -> bool:
        """Whether b is so much slower that it need not be measured further."""
        return self.step_seconds_a is not None and step_seconds_b > HOPELESS * self.step_seconds_a

    def give_up(self, step_seconds_b: float) -> None:
        """Raises TrialFailed if it is."""
        if self.step_seconds_a is not None and self.hopeless(step_seconds_b):
            times = step_seconds_b / self.step_seconds_a
            raise TrialFailed(f"about {times:.0f} times slower: one block was enough to see it")

    def took_up(self, setup_seconds: float, is_b: bool) -> None:
        """A worker's set-up time for a plan so far; the first time takes the longest."""
        if is_b:
            self._setup_b = max(self._setup_b, setup_seconds)
        else:
            self._setup_a = max(self._setup_a, setup_seconds)

    def add(self, log_ratio: float | None, contended: bool) -> None:
        """Add an ABBA block, None for one that could not be timed. Raises TrialFailed if hardly any can."""
        if log_ratio is not None:
            self._log_ratios.append((log_ratio, contended))
            return
        self._untimed += 1
        if self.too_few and self._untimed >= MOST_ABBA_BLOCKS:
            raise TrialFailed(TOO_FEW_REGULAR)

    @property
    def gathered(self) -> int:
        return len(self._log_ratios)

    @property
    def log_ratios(self) -> list[float]:
        """The log ratios of the undisturbed ABBA blocks, if there are enough of them; otherwise of all."""
        alone = [log_ratio for log_ratio, contended in self._log_ratios if not contended]
        return alone if len(alone) >= self._least else [log_ratio for log_ratio, _ in self._log_ratios]

    @property
    def too_few(self) -> bool:
        return self.gathered < self._least

    @property
    def decided(self) -> bool:
        """Clear, or known well, or without effect, or as many ABBA blocks as are worth it. Stopping early
        bends the interval a little: it steers the search and is never a claim.
        """
        ratio = robust_interval(self.log_ratios, "ABBA blocks", 0.99)
        idle = self.gathered == 1 and without_effect(self.proofs)
        if idle or clearly_worse([log_ratio for log_ratio, contended in self._log_ratios if not contended]):
            return True
        if self.too_few or ratio is None:
            return False
        return is_clear(ratio) or known_well(ratio) or len(self.log_ratios) >= MOST_ABBA_BLOCKS

    def trial(self, a: Plan, b: Plan, seconds: float, failure: str | None) -> Trial:
        return Trial(
            a=a,
            b=b,
            method="live",
            log_ratios=tuple(self.log_ratios),
            ratio=None if failure else robust_interval(self.log_ratios, "ABBA blocks"),
            step_seconds_a=median(block.step_seconds for block in self.blocks_a) if self.blocks_a else None,
            step_seconds_b=median(block.step_seconds for block in self.blocks_b) if self.blocks_b else None,
            seconds=seconds,
            setup_seconds=max(0.0, self._setup_b - self._setup_a),
            proofs=self.proofs,
            failure=failure,
            phases_b=usual_phases(self.steps_b, self.timed.cycle),
        )
