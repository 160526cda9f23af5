"""Several workers brought to their first step: at the same time, one after the other, or between the two.

Programs that compute on the same cores before their first step are many times slower together: threads wait
for each other, and threads that spin keep the others' processors busy. So on a CPU only what a worker does
before it makes an optimizer (importing, reading data, building its model) falls into the time in which the
worker before it starts; then it waits for its turn. Seen on two cores, for two processes: 2.5 s in place of
4.4 for a small CNN, 4.3 in place of 7.6 for timm's training loop; and for a script that evaluates before its
first step 3.5 in place of 5.7, where 26 s went by if both computed at once.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from typing import Literal

from ...records.facts import Facts
from .gpu_room import GpuRoom
from .worker import Worker

_MORE = {"one by one": 1.0, "in turn": 0.3, "together": 0.2}  # of a start, that one more worker takes
_ROOMY = 8  # cores
_SLOWED = 1.6  # times as long as alone: too much was computed before the worker's turn

How = Literal["one by one", "in turn", "together"]
Start = Callable[[str], Worker]
"""(its turn, see ``Job``) -> a worker that begins."""


class Starts:
    """``alone``: seconds of a start that nothing else slows down, once known. ``room``: on a GPU."""

    def __init__(self, folder: Callable[[], str] = tempfile.gettempdir) -> None:
        """``folder``: visible to all workers."""
        self._folder = folder
        self.room = GpuRoom()
        self.how: How = "one by one"
        self.alone = 0.0

    def know(self, facts: Facts) -> None:
        """The script was watched: decide how its workers start."""
        self.alone = facts.observation.start_seconds
        self.room.know(facts.observation.gpu_memory)
        cores = facts.machine.usable_cpus
        if facts.devices == {"cuda"} and cores >= _ROOMY:
            self.how = "together"
        elif cores > 1:
            self.how = "in turn"

    def seconds(self, one: float, count: int) -> float:
        """What ``count`` starts take if one alone takes ``one``."""
        return one * (1 + (count - 1) * _MORE[self._how_for(count)])

    def _how_for(self, count: int) -> How:
        """Together, each would hold on the GPU what its first step needs."""
        return "in turn" if self.how == "together" and self.room.is_short_for(count) else self.how

    def bring(
        self, starts: Sequence[Start], stack: ExitStack, then: Callable[[Worker], object]
    ) -> list[Worker]:
        """Start workers, and call ``then`` for each once it has come to its first step's end."""
        begun: list[tuple[Worker, str]] = []

        def begin(count: int) -> None:
            while len(begun) < min(count, len(starts)):
                turn = self._turn(stack) if begun and self._how_for(len(starts)) == "in turn" else ""
                begun.append((stack.enter_context(starts[len(begun)](turn)), turn))

        workers = []
        for number in range(len(starts)):
            began = time.monotonic()
            how = self._how_for(len(starts))
            begin({"one by one": number + 1, "in turn": number + 2, "together": len(starts)}[how])
            worker, turn = begun[number]
            _end_wait(turn)
            worker.wait_started()
            if not (number or worker.plan):  # a plan's set-up takes time, too
                self._look(time.monotonic() - began)
            then(worker)
            workers.append(worker)
        return workers

    def _look(self, seconds: float) -> None:
        """A plain start took so long while the next one's did."""
        if self.how == "in turn" and seconds > _SLOWED * self.alone > 0:
            self.how = "one by one"

    def _turn(self, stack: ExitStack) -> str:
        descriptor, path = tempfile.mkstemp(prefix="turn-", dir=self._folder())
        os.close(descriptor)
        stack.callback(_end_wait, path)
        return path


def _end_wait(turn: str) -> None:
    """Let the worker that waits for this turn go on."""
    if turn:
        with suppress(FileNotFoundError):
            os.remove(turn)
