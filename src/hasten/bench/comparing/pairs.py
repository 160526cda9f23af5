"""Two plans compared in pairs of fresh processes. In each pair, one trains while the other is stopped, in
turns.

Every process has its own speed, so a pair counts once, however long it runs: intervals are over pairs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial

from ...errors import WorkerError
from ...inside.techniques.catalog import changing, starts_after
from ...records.plan import Plan
from ...records.trial import Trial
from ..base import batches_ahead, late, without_effect
from ..trials import Trials
from ..workers.ending import BudgetOver, PlanRefused, ScriptOver
from ..workers.worker import Worker
from .blocks import Block, measure
from .epoch_ends import EpochEnds
from .first_steps import SECOND_LOOK, hopeless
from .pair import (
    Pair,
    PairTimes,
    lasting_seconds,
    shown_by,
    undisturbed_blocks,
    undisturbed_pairs,
    why_lost_at_once,
)
from .quiet import Quiet
from .seen_process import seen_process
from .statistics import interval
from .steps import TOO_FEW_REGULAR, Rhythm, spoilt

# each is A B B A: under the median of two or four blocks, a steady drift cancels in this order only
_TURNS, _TURNS_IF_SLOW = 2, 1
_TIMED_IF_SLOW = 2  # cycles of a block
_WARMUP_SECONDS = 0.3

Enough = Callable[[list[float]], bool]


class PairsBench:
    """Each comparison starts fresh processes. ``enough`` may end it early; without it, it runs ``pairs``
    pairs.
    """

    def __init__(
        self, trials: Trials, rhythm: Rhythm, quiet: Quiet | None = None, ends: EpochEnds | None = None
    ) -> None:
        self._trials = trials
        self._quiet = quiet or Quiet()
        self._ends = ends or EpochEnds(rhythm)
        self._late = 0  # steps until both plans are in force, and there is anything to compare
        self._ahead = 0  # steps of each block that are not timed, as their batches may have been ready before
        self.shows_after: Mapping[str, int] = {}  # as in ``LiveBench``
        self._fitted = False  # whether blocks fit the script's steps under these plans
        self._take(rhythm)
        self._settled_beside_others = False
        self._timed = rhythm  # by which blocks are timed in the latest comparison
        self.times = PairTimes()
        self.sample_seconds_b: tuple[float, ...] = ()  # of each process of b in the last comparison

    def _take(self, rhythm: Rhythm) -> None:
        self._rhythm = rhythm
        warmup = max(rhythm.warmup_cycles, min(40, math.ceil(_WARMUP_SECONDS / rhythm.cycle_seconds)))
        self._warmup_steps = self._late + rhythm.warmup_steps(warmup * rhythm.cycle)
        self._turns = rhythm.fewer(_TURNS, _TURNS_IF_SLOW)
        self._untimed = 1 + self._warmup_steps + 2 * self._turns * self._ahead
        self._block_steps = rhythm.block_steps(2 * self._turns, self._untimed, _TIMED_IF_SLOW)

    @property
    def steps_needed(self) -> int:
        """Steps that each worker of a pair trains."""
        return self._untimed + 2 * self._turns * self._block_steps

    @property
    def _spare_steps(self) -> float:
        """Steps that the script has in addition to these."""
        length = self._rhythm.steps_in_all
        return math.inf if length is None else length - self.steps_needed

    def compare(self, a: Plan, b: Plan, pairs: int, enough: Enough = lambda _: False) -> Trial:
        """``b`` against ``a`` over ``pairs`` pairs, or fewer once ``enough(log ratios)``."""
        clock = self._trials.limit.clock
        began = clock()
        self._late = max(starts_after(a), starts_after(b), late(a, b, self.shows_after))
        self._ahead = max(map(self._ahead_under, (a, b)))
        self._take(replace(self._rhythm, steps_in_all=self._ends.script_steps))
        self._fitted = self._ends.script_steps is not None and not (changing(a) or changing(b))
        self._timed = self._rhythm.between(a, b)
        done: list[Pair] = []
        failure, cut_short = None, False
        try:
            for plan in (a, b):
                self._trials.rehearse(plan, briefly=True)
            self._prepare(a, b)
            for number in range(pairs):
                pair_began, waited = clock(), self._quiet.spent_seconds
                contended = self._quiet.counted_as_measured
                done.append(self._fitting_pair(a, b, a_first=number % 2 == 0))
                waited = self._quiet.spent_seconds - waited
                self._pair_took(clock() - pair_began - done[-1].setups_seconds - waited)
                plain_step = self._rhythm.cycle_seconds / self._rhythm.cycle
                self.times.compared(self.steps_needed, plain_step, done[-1].step_seconds_a)
                idle = not number and without_effect(done[-1].proofs)  # further processes would show no more
                undisturbed = self._quiet.counted_as_measured == contended
                told = (number or undisturbed) and enough([pair.log_ratio for pair in done])
                if idle or told:
                    break
            failure = without_effect(done[-1].proofs) or (why_lost_at_once(done) if told else "") or None
        except ScriptOver as over:
            failure = (
                f"the script ended in mid-comparison, which takes {self.steps_needed} steps"
                if over.ended.how == "completed"
                else str(over)
            )
        except BudgetOver as over:
            cut_short = True
            failure = str(over) if len(done) < 2 else without_effect(done[-1].proofs) or None
        except (MeasureFailed, PlanRefused, WorkerError) as error:
            failure = str(error)
        self._trials.starts.room.failed(failure or "")
        done = [*undisturbed_pairs(done)]
        log_ratios = [pair.log_ratio for pair in done]
        self.sample_seconds_b = tuple(pair.sample_seconds_b for pair in done)
        ratio, seconds = None if failure else interval(log_ratios, "pairs"), clock() - began
        trial = Trial(a, b, "pairs", tuple(log_ratios), ratio, None, None, seconds)
        trial = replace(trial, failure=failure, script_steps=self._ends.script_steps, cut_short=cut_short)
        return shown_by(done, trial) if done else trial

    def singles(self, plans: Sequence[Plan]) -> list[float]:
        """Seconds per sample of one fresh process for each of ``plans``, started as in a pair: one block
        each. Enough to detect a slow process.

        Raises MeasureFailed, ScriptOver, BudgetOver, PlanRefused, WorkerError.
        """
        found = []
        for plan in plans:
            self._trials.rehearse(plan)
        with ExitStack() as stack:
            workers = self._started(plans, stack)
            self._begin(workers)
            for plan, worker in zip(plans, workers, strict=True):
                with self._trials.stopwatch.on("timing"):
                    blocks = self._alone(plan, worker)
                worker.resume()
                idle = without_effect(worker.proofs())
                worker.pause()
                if idle:  # it trained like the plain one, and says nothing about the plan
                    raise MeasureFailed(idle)
                found.append(self._time(blocks))
        return found

    def _worker(self, plan: Plan, turn: str = "") -> Worker:
        return self._trials.worker(plan, turn=turn, at_once=2)

    def _fitting_pair(self, a: Plan, b: Plan, a_first: bool) -> Pair:
        """A pair; if the script turns out to be too short for it, one with shorter blocks. A changed training
        may take fewer steps than the plain one: its length counts in this comparison only.
        """
        try:
            return self._pair(a, b, a_first)
        except ScriptOver as over:
            if over.ended.how != "completed" or self._fitted:
                raise
            self._fitted = True
            self._take(replace(self._rhythm, steps_in_all=over.ended.steps_in_all))
            if not (changing(a) or changing(b)):
                self._ends.script_ended(over.ended.steps_in_all)
                self._ends.note_tail(over.ended.plan, over.ended.rest, noted=False)
            return self._pair(a, b, a_first)

    def _pair(self, a: Plan, b: Plan, a_first: bool) -> Pair:
        if not self._block_steps:
            raise MeasureFailed(self._rhythm.too_short(2 * self._turns, self._untimed, _TIMED_IF_SLOW))
        with ExitStack() as stack:
            order = first, second = (a, b) if a_first else (b, a)
            workers = dict(zip(order, self._started(order, stack), strict=True))
            self._begin([workers[plan] for plan in order])
            settled = {plan: len(worker.history) for plan, worker in workers.items()}
            blocks: dict[Plan, list[Block]] = {a: [], b: []}
            spare = self._spare_steps >= SECOND_LOOK
            if not self._settled_beside_others and (
                why := hopeless(workers[a], workers[b], self._rhythm, spare)
            ):
                raise MeasureFailed(why)
            with self._trials.stopwatch.on("timing"):
                for plan, block in self._blocks(workers, first, second):
                    blocks[plan].append(block)
            workers[b].resume()
            proofs = workers[b].proofs()
            workers[b].pause()
            workers[a].resume()
            of_a = workers[a].proofs()  # for its set-up and start
            for plan, worker in workers.items():
                self._ends.note(plan, worker.history, 0)
            calm = undisturbed_blocks(blocks)
            return Pair(
                log_ratio=math.log(self._time(calm[b]) / self._time(calm[a])),
                sample_seconds_b=self._time(calm[b]),
                step_seconds_a=self._timed.usual([block.step_seconds for block in calm[a]]),
                step_seconds_b=self._timed.usual([block.step_seconds for block in calm[b]]),
                proofs=proofs,
                lasting_seconds=max(0.0, lasting_seconds(proofs) - lasting_seconds(of_a)),
                setups_seconds=sum(one.setup_seconds - one.spared_seconds for one in workers.values()),
                a=seen_process(workers[a], of_a, blocks[a], settled[a], self._rhythm),
                b=seen_process(workers[b], proofs, blocks[b], settled[b], self._rhythm),
                contended=any(block.contended for each in calm.values() for block in each),
            )

    def _time(self, blocks: Sequence[Block]) -> float:
        """Seconds a sample of one process."""
        if not blocks:
            raise MeasureFailed(TOO_FEW_REGULAR)
        return self._timed.usual([block.sample_seconds for block in blocks])

    def _pair_took(self, seconds: float) -> None:
        """Called after each pair with its time, without set-ups and repeated measurements."""
        self.times.took(seconds)

    def _prepare(self, a: Plan, b: Plan) -> None:
        """Called before the first pair of a comparison. Raises MeasureFailed."""

    def _blocks(
        self, workers: Mapping[Plan, Worker], first: Plan, second: Plan
    ) -> Iterator[tuple[Plan, Block]]:
        """The blocks of a pair, as they are timed."""
        for _ in range(self._turns):
            yield from self._turn(workers, (first, second, second, first))

    def _alone(self, plan: Plan, worker: Worker) -> list[Block]:
        """The blocks of a single process."""
        return [block for _, block in self._turn({plan: worker}, (plan,))]

    def _turn(self, workers: Mapping[Plan, Worker], order: Sequence[Plan]) -> list[tuple[Plan, Block]]:
        """One block of each; all of them again if one was disturbed, so that a drift cancels. A script whose
        end is known has no steps for that.
        """
        again = self._rhythm.steps_in_all is None
        timed: list[tuple[Plan, Block]] = []
        position = 0
        while position < len(order):
            plan = order[position]
            before = self._quiet.begin()
            block = self._block(workers[plan], self._ahead_under(plan))
            position += 1
            if self._quiet.disturbed(before, again):
                timed, position = [], 0
            elif block is not None:
                timed.append((plan, replace(block, contended=self._quiet.contended)))
        return timed

    def _begin(self, workers: Sequence[Worker]) -> None:
        """Train until all are stopped where blocks can be timed."""
        with self._trials.stopwatch.on("settling"):
            before = self._quiet.begin()
            for worker in workers:
                worker.resume()
                self._settle(worker)
            self._settled_beside_others = self._quiet.others_since(before)

    def _started(self, plans: Sequence[Plan], stack: ExitStack) -> list[Worker]:
        """Workers that have come to their first step and are stopped there."""
        starts = [partial(self._worker, plan) for plan in plans]
        with self._trials.stopwatch.on("starting"):
            return self._trials.starts.bring(starts, stack, lambda worker: worker.pause())

    def _settle(self, worker: Worker) -> None:
        """Train untimed steps to warm up."""
        if self._warmup_steps:
            worker.steps(self._warmup_steps)
        worker.pause()

    def _ahead_under(self, plan: Plan) -> int:
        """Steps whose batches may have been made for free before a worker was stopped."""
        return self._rhythm.cycle * math.ceil(batches_ahead(plan) / self._rhythm.cycle)

    def _block(self, worker: Worker, untimed: int) -> Block | None:
        """One timed block, of which the first cycle is not counted: GPU memory may be reserved again in it;
        nor are the ``untimed`` steps before it.
        """
        worker.resume()
        steps = worker.steps(untimed + self._block_steps)[untimed:]
        worker.pause()
        why_not = spoilt(steps, self._rhythm)
        if why_not:
            raise MeasureFailed(why_not)
        return measure(steps, self._timed)


class MeasureFailed(Exception):
    """The measured plan cannot win; the message is the reason."""
