"""Stops ranks that cannot go on together: at once, with one line that says why, and no writes after it."""

from __future__ import annotations

import os
import re
import sys
import threading
from collections.abc import Callable
from typing import NoReturn, Protocol

from ...saying import say
from ..job import Ranks
from .averaging import OutOfStep
from .backends.lockstep import Disagreement
from .communication import Communication

EXIT_CODE = 70  # of a rank that cannot go on with the others
WAITED = 75  # of one that waited for others in vain
_IN_VAIN = re.compile(r"timed? ?out|kept rank \d+ waiting", re.IGNORECASE)
_ADVICE = (
    "What a rank computes from its own part of a batch must not steer the training. It was stopped there; "
    "the last checkpoint is as the script left it"
)


class Fail(Protocol):
    """Ends the process with that exit code, after a line that names the rank."""

    def __call__(self, reason: str, code: int = EXIT_CODE) -> NoReturn: ...


class Parting:
    def __init__(self, communication: Communication, fail: Fail) -> None:
        self._communication, self._fail = communication, fail

    def together(self, why: str) -> NoReturn:
        """All ranks stop for one reason: rank 0 prints it, and the others end after it."""
        if self._communication.rank:
            try:
                self._communication.barrier()  # which rank 0 never reaches
            except Exception:
                os._exit(EXIT_CODE)
        self._fail(f"the ranks have come apart: {why}. {_ADVICE}")

    def cannot_go_on(self, error: Exception, steps: int) -> NoReturn:
        """This rank's part of a collective failed: because another rank's script has ended, if one has."""
        ended = self._communication.ended()
        over = [(rank, theirs) for rank, theirs in ended.items() if rank != self._communication.rank]
        if over:
            self._fail(_ended_early(self._communication.rank, steps, *over[0]))
        if isinstance(error, (OutOfStep, Disagreement)):
            self._fail(f"the ranks have come apart at step {steps + 1}: {error}. {_ADVICE}")
        self._fail(str(error), WAITED if _IN_VAIN.search(str(error)) else EXIT_CODE)

    def meet(self, steps: int) -> None:
        """This rank's script has ended, after ``steps``: return once those of all ranks have. A rank that
        goes on comes to a collective, which ends all ranks. A slow one (stopped at its terminal, for example)
        is waited for.
        """
        talk = self._communication
        talk.say_ended(steps)
        failures: list[BaseException] = []
        meetings = [threading.Thread(target=_meet, args=(m, failures), daemon=True) for m in talk.meetings()]
        for meeting in meetings:
            meeting.start()
        while any(meeting.is_alive() for meeting in meetings) and not failures:
            for meeting in meetings:
                meeting.join(0.02)
        if failures:
            self._fail(
                f"its script ended after step {steps}, where another rank's goes on: the ranks have come "
                f"apart. {_ADVICE}"
            )
        ended = talk.ended()
        other = next((rank for rank, theirs in ended.items() if theirs != steps), None)
        if other is not None:
            self._fail(_ended_early(talk.rank, steps, other, ended[other]))


def _meet(meeting: Callable[[], None], failures: list[BaseException]) -> None:
    try:
        meeting()
    except BaseException as error:
        failures.append(error)


def _ended_early(rank: int, steps: int, other: int, theirs: int) -> str:
    return (
        f"the ranks have come apart: rank {other} ended after step {theirs}, where rank {rank} is at step "
        f"{steps + 1}. {_ADVICE}"
    )


def fail_as(ranks: Ranks) -> Fail:
    """Returns a function that ends this rank. Not through an exception, which the script might catch."""

    where = f" on host {ranks.hosts.names[ranks.hosts.here]}" if ranks.hosts is not None else ""

    def fail(reason: str, code: int = EXIT_CODE) -> NoReturn:
        sys.stdout.flush()
        say(f"hasten: rank {ranks.rank}{where} cannot go on: {reason}", lines=True)
        os._exit(code)

    return fail
