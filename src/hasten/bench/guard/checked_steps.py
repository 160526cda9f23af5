"""Takes workers through the same steps of a training and compares single ones: one state, one batch."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

from ...inside.job import Perturbation
from ...records import messages
from ...records.plan import Plan
from ...records.trace import Trace
from ...records.trial import Proof
from ..base import process_part
from ..trials import Trials
from ..workers.ending import LEAST_TO_CHECK, PlanRefused, ScriptEnded, ScriptOver
from ..workers.gpu_room import out_of_gpu_memory
from ..workers.limit import Limit
from ..workers.worker import Worker

MOST_AT_ONCE = 8  # workers of a closer look
LEAST_STEPS = LEAST_TO_CHECK  # over which a training is compared
_SLOWER = 1.3  # times the steps so far: how long coming ones may take if disturbed

Answer = TypeVar("Answer", bound=messages.Message)


@dataclass(frozen=True)
class Check:
    """One step against the reference's.

    ``gradient`` and ``update`` by parameter, ``buffers`` by buffer; ``since`` by kind: how far the training
    had drifted since the previous check; ``counts``: integers in state and buffers that differed;
    ``evaluation``: as in messages.Compared.
    """

    step: int
    gradient: Mapping[str, messages.Sums]
    update: Mapping[str, messages.Sums] = field(default_factory=dict)
    buffers: Mapping[str, messages.Sums] = field(default_factory=dict)
    since: Mapping[str, messages.Sums] = field(default_factory=dict)
    counts: Sequence[str] = ()
    evaluation: float | None = None


@dataclass
class Watched:
    """The results of one worker. ``failed``: why no more steps could be compared, or "". ``proofs``: of its
    plan's techniques, at the end. ``before``: the steps before the compared ones.
    """

    trace: Trace = ()
    checks: list[Check] = field(default_factory=list)
    failed: str = ""
    proofs: Sequence[Proof] = ()
    before: Trace = ()


def started(
    stack: ExitStack,
    trials: Trials,
    wanted: Sequence[tuple[Plan, Perturbation | None]],
    seed: int,
    before: int = 0,
) -> list[Worker]:
    """Traced workers at the end of the first step after ``before`` steps that are the baseline's. That one
    is under the plan, with the noise, that is ``wanted``.

    Raises PlanRefused, ScriptOver or WorkerError.
    """

    def start(plan: Plan, noise: Perturbation | None, turn: str) -> Worker:
        begun_with = process_part(plan) if before else plan
        return trials.worker(
            begun_with, seed=seed, traced=True, perturbation=noise, turn=turn, at_once=MOST_AT_ONCE
        )

    plans = iter([plan for plan, _ in wanted])
    starts = [partial(start, *one) for one in wanted]
    return trials.starts.bring(starts, stack, lambda worker: _go_on_to(worker, before, next(plans)))


def _go_on_to(worker: Worker, before: int, plan: Plan) -> None:
    if before > 1:
        worker.steps(before - 1)
    if before:
        technique, _, why_not = worker.switch(plan).partition(": ")
        if technique:
            raise PlanRefused(technique, why_not)
        worker.steps(1)


def checked_steps(steps: int) -> list[int]:
    """Which of ``steps`` steps start from one state. The first, also compared, does so anyway."""
    return sorted(step for step in {2, steps // 3, 2 * steps // 3 + 1, steps} if 1 < step <= steps)


def watch(
    reference: Worker, others: Sequence[Worker], steps: int, folder: str, limit: Limit, before: int = 0
) -> tuple[Watched, list[Watched]]:
    """Train ``steps`` steps in each worker, the reference always ahead. They stop at the end of their first,
    which comes after ``before`` others; then they may differ before it, and it is not checked itself.

    Fewer, but at least ``LEAST_STEPS``, if the next part would probably exceed ``limit``. ``folder`` takes
    one state at a time, and is left empty. All are stopped except the active one, and afterwards.

    Raises ScriptOver if one runs out of GPU memory, as others hold some of it. Any other end of a script is
    part of what is compared.
    """
    ahead, behind = _Led(reference, before), [_Led(worker, before) for worker in others]
    with tempfile.TemporaryDirectory(prefix="steps-", dir=folder) as exchange:
        state, made = os.path.join(exchange, "state"), os.path.join(exchange, "made")
        if not before:
            _check(ahead, behind, 1, state, made)
        began, done = limit.clock(), 0
        for step in checked_steps(steps):
            if done >= LEAST_STEPS and not _fits(step - done, done, limit.clock() - began, limit.left):
                steps = done
                break
            ahead.advance(step - 1)
            ahead.ask(messages.SaveState(state))
            ahead.advance(step)
            if ahead.failed or ahead.over is not None:
                break
            _check(ahead, behind, step, state, made)
            done = step
    for led in (ahead, *behind):
        led.advance(steps)
    return ahead.watched(steps), [led.watched(steps) for led in behind]


def _fits(more: int, done: int, took: float, left: float | None) -> bool:
    """Whether ``more`` steps fit into the time left, if ``done`` steps ``took`` this many seconds."""
    return left is None or _SLOWER * took / done * more <= left


class _Led:
    """A worker being led, whose script may end anywhere."""

    def __init__(self, worker: Worker, before: int) -> None:
        self._worker, self._before = worker, before
        worker.pause()
        self._taken = 1
        self._checks: list[Check] = []
        self.over: ScriptEnded | None = None  # set if the script ended
        self.failed = ""

    @contextmanager
    def _turn(self) -> Iterator[Worker]:
        """Stops it at the end: threads that spin would keep the others' processors busy."""
        self._worker.resume()
        try:
            yield self._worker
        finally:
            self._worker.pause()

    def advance(self, step: int) -> None:
        """Go to the end of ``step``, or of the script."""
        if self.over is None and step > self._taken:
            try:
                with self._turn() as worker:
                    worker.steps(step - self._taken)
                self._taken = step
            except ScriptOver as end:
                if out_of_gpu_memory(str(end)):  # the others hold some of it: that is not the plan's doing
                    raise
                self.over = end.ended

    def ask(self, request: messages.Request[Answer | messages.Failed]) -> Answer | None:
        """Its answer; None if it failed, now or before, or if its script has ended."""
        if self.failed or self.over is not None:
            return None
        with self._turn() as worker:
            answer = worker.numerics(request)
        if isinstance(answer, messages.Failed):
            self.failed = answer.reason
            return None
        return answer

    def last_optimizer(self) -> int:
        with self._turn() as worker:
            return worker.trace()[-1].optimizer

    def check(self, step: int, state: str, made: str) -> None:
        """Take ``step`` from the reference's state, the first from this worker's own."""
        self.advance(step - 1)
        departed = self.ask(messages.LoadState(state, made)) if step > 1 else None
        departed = departed or messages.Departed({}, ())
        self.advance(step)
        found = self.ask(messages.CompareStep(made))
        if found is not None:
            ours = found.gradient, found.update, found.buffers
            self._checks.append(Check(step, *ours, departed.since, departed.counts, found.evaluation))

    def watched(self, steps: int) -> Watched:
        begin, ended = self._before, self.over
        with self._turn() as worker:
            trace, proofs = (
                (worker.trace(), worker.proofs()) if ended is None else (ended.trace, ended.proofs)
            )
        compared = trace[begin : begin + steps]
        return Watched(compared, self._checks, self.failed, proofs, trace[:begin])


def _check(ahead: _Led, behind: Sequence[_Led], step: int, state: str, made: str) -> None:
    ahead.ask(messages.RecordStep(made, ahead.last_optimizer()))
    for led in behind:
        if not ahead.failed:
            led.check(step, state, made)
