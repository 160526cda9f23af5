"""The worker's side of the conversation: at a step's end it does what the coordinator asks, then trains
on.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Callable
from typing import Any, NoReturn

from .observer import RawStep
from .wire import Hangup, Message, Wire

Answer = Callable[[Message], Message]


def stop_here() -> NoReturn:
    """End this worker between two steps. The script's own clean-up does not run: its trial is thrown away
    anyway.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


class Conversation:
    """Counts steps down; when the last one asked for is done, reports them and waits for the next request.

    Requests: ``steps`` {count} is answered with ``steps``; every other ``do`` is answered by its entry in
    ``answers``; ``stop`` ends the process.
    """

    def __init__(
        self, wire: Wire, answers: dict[str, Answer], sources: Callable[[], list[str]] = list
    ) -> None:
        """``sources``: files of the script's modules that were not told of yet."""
        self._wire = wire
        self._answers = answers
        self._sources = sources
        self._left = 0
        self._batch: list[RawStep] = []
        self._started = False

    def step_ended(self, step: RawStep) -> None:
        self._batch.append(step)
        self._left -= 1
        if self._left > 0:
            return
        try:
            self._report()
            while self._left <= 0:
                self._obey(self._wire.receive())
        except Hangup:
            os._exit(0)  # the coordinator is gone: nobody wants this training any more

    def ended(
        self,
        how: str,
        detail: str,
        testimony: list[dict[str, Any]],
        observation: Any = None,
        account: Message | None = None,
    ) -> None:
        """The script is over; steps that were not reported yet, what was witnessed and what was seen go with
        the message.
        """
        told: Message = {"how": how, "detail": detail, "steps": _plain(self._batch), "account": account}
        told["sources"] = self._sources()
        with contextlib.suppress(Hangup):
            self._wire.send({"event": "ended", **told, "testimony": testimony, "observation": observation})

    def child_came(self, name: str) -> None:
        """Say, while the first step is waited for, that the script started a process of its own."""
        if not self._started and threading.current_thread() is threading.main_thread():
            self._wire.send({"event": "child", "name": name})

    def lost_sight(self, detail: str) -> None:
        """Say that nothing can be told of the training any more; nobody wants it then."""
        with contextlib.suppress(Hangup):
            self._wire.send({"event": "lost sight", "detail": detail})
        stop_here()

    def _report(self) -> None:
        event = "steps" if self._started else "started"
        self._started = True
        self._wire.send({"event": event, "steps": _plain(self._batch), "sources": self._sources()})
        self._batch = []

    def _obey(self, request: Message) -> None:
        verb = request["do"]
        if verb == "stop":
            stop_here()
        elif verb == "steps":
            self._left = request["count"]
        else:
            self._wire.send(self._answers[verb](request))


def _plain(steps: list[RawStep]) -> list[dict[str, Any]]:
    """As records.observation.Step, with the signature that tells the script's cycle."""
    return [
        {
            "seconds": step.seconds,
            "samples": step.samples or None,
            "inputs": step.inputs or None,
            "evaluations": step.evaluations,
            "restarts": step.restarts,
            "phases": step.phases(),
            "losses": [float(loss) for loss in step.losses],
            "signature": [step.optimizer, step.forwards, step.backwards],
        }
        for step in steps
    ]
