"""The worker's side of the conversation: at a step's end it does what the coordinator asks, then trains
on.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Callable, Sequence
from typing import NoReturn

from ...records.messages import (
    ChildStarted,
    Ended,
    Message,
    StepsDone,
    TrainSteps,
    WatchingFailed,
)
from ...records.observation import Observation, Step
from ...records.quality import RunSummary
from ...records.trace import StepTrace
from ...records.trial import Proof
from ..observing.raw_step import RawStep
from ..process.wire import Hangup, Wire

Answer = Callable[[Message], Message]


def stop_here() -> NoReturn:
    """End this worker between two steps. The script's own clean-up does not run: its trial is thrown away
    anyway.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


class Conversation:
    """Counts steps down; when the last requested one is done, reports them and waits for the next request.

    ``answer`` handles every request except TrainSteps.
    """

    def __init__(
        self,
        wire: Wire,
        answer: Answer,
        sources: Callable[[], Sequence[str]] = tuple,
        rests: Callable[[], object] = lambda: None,
    ) -> None:
        """``sources``: files of the script's modules that were not reported yet. ``rests`` is called when
        something is done, before the coordinator hears of it: it may stop us then, and let another train.
        """
        self._wire = wire
        self._answer = answer
        self._sources = sources
        self._rests = rests
        self._left = 0
        self._batch: list[RawStep] = []
        self._started = False

    def step_ended(self, step: RawStep) -> None:
        """Count a step. After the last requested one, report them and do what the coordinator asks."""
        self._batch.append(step)
        self._left -= 1
        if self._left > 0:
            return
        try:
            self._report()
            while self._left <= 0:
                self._obey(self._wire.receive())
        except Hangup:
            os._exit(0)  # the coordinator is gone: this training is no longer needed

    def ended(
        self,
        how: str,
        detail: str,
        trace: tuple[StepTrace, ...],
        observation: Observation | None = None,
        summary: RunSummary | None = None,
        rest: RawStep | None = None,
        proofs: Sequence[Proof] = (),
    ) -> None:
        """The script has ended. The message carries steps that were not reported yet, what was recorded and
        what was seen, and the ``rest``: what came after the last step.
        """
        steps, sources = step_records(self._batch), tuple(self._sources())
        last = step_records([rest])[0] if rest is not None else None
        with contextlib.suppress(Hangup):
            self._wire.send(
                Ended(how, detail, steps, sources, trace, observation, summary, last, tuple(proofs))
            )

    def child_came(self, name: str) -> None:
        """Report, before the first step, that the script started a child process."""
        if not self._started and threading.current_thread() is threading.main_thread():
            self._wire.send(ChildStarted(name))

    def watching_failed(self, detail: str, bug: bool) -> None:
        """Report that the training can no longer be observed, and end: it is useless then."""
        with contextlib.suppress(Hangup):
            self._wire.send(WatchingFailed(detail, bug))
        stop_here()

    def _report(self) -> None:
        self._started = True
        self._rests()
        self._wire.send(StepsDone(step_records(self._batch), tuple(self._sources())))
        self._batch = []

    def _obey(self, request: Message) -> None:
        if isinstance(request, TrainSteps):
            self._left = request.count
        else:
            answer = self._answer(request)
            self._rests()
            self._wire.send(answer)


def step_records(steps: Sequence[RawStep]) -> tuple[Step, ...]:
    """The steps in the form in which the coordinator gets them."""
    return tuple(
        Step(
            seconds=step.seconds,
            samples=step.samples or None,
            evaluations=step.evaluations,
            restarts=step.restarts,
            phases=step.phases(),
            losses=tuple(map(float, step.losses)),
            signature=(step.optimizer, step.forwards, step.backwards),
            inputs=step.inputs or None,
            elements=step.elements or None,
            setup_seconds=step.set_up,
            saves=step.saves,
            new_model=step.new_model,
            last_batches=step.last_batches,
        )
        for step in steps
    )
