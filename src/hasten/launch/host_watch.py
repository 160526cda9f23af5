"""What torchrun does not tell of the ranks of its host: which one has stood stopped, and how the first ended.

torchrun sees that a process ends, and nothing else. A rank that is stopped would keep all others waiting for
as long as their process group does.
"""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from ..machine.vitals import killed_for_memory
from ..saying import say
from .exit_codes import how_it_ended
from .keeper import in_background
from .process_states import STACK_SECONDS, ask_where_it_stands, children_of, is_stopped


class HostWatch:
    """Watches the ranks that this process has started, from ``begin`` on. One that stays stopped for
    ``deadline_seconds`` is killed, and what started it does what it does where a rank fails.
    """

    def __init__(self, deadline_seconds: float) -> None:
        self._deadline = deadline_seconds
        self._stopped_since: dict[int, float] = {}
        self._killed: set[str] = set()  # ranks of which was told
        self._killed_before = killed_for_memory()
        self._host = socket.gethostname()

    def begin(self) -> None:
        in_background(self._watch, "hasten watch of ranks")

    def tell_end(self, rank: int, code: int) -> None:
        """``code``: as from subprocess, negative for a signal."""
        if str(rank) in self._killed:
            return
        how = how_it_ended(code, killed_for_memory() > self._killed_before)
        say(f"hasten: rank {rank} on host {self._host} {how}")

    def _watch(self) -> None:
        turn = min(1.0, self._deadline / 4)
        while True:
            began = time.monotonic()
            time.sleep(turn)
            if time.monotonic() - began > 2 * turn:  # this process was stopped itself, and they with it
                self._stopped_since.clear()
            self._look()

    def _look(self) -> None:
        now, stopped = time.monotonic(), dict(_stopped_ranks())
        self._stopped_since = {one: self._stopped_since.get(one, now) for one in stopped}
        for process, since in self._stopped_since.items():
            if now - since > self._deadline:
                self._end(process, stopped[process])

    def _end(self, process: int, rank: str) -> None:
        say(
            f"hasten: rank {rank} on host {self._host} was stopped, and after {self._deadline:g} s nobody "
            "had continued it; it is killed"
        )
        self._killed.add(rank)
        say(f"hasten: where rank {rank} on host {self._host} stood:")
        if ask_where_it_stands(process):
            time.sleep(STACK_SECONDS)
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)


def _stopped_ranks() -> Iterator[tuple[int, str]]:
    """Processes, each with its rank."""
    for process in children_of(os.getpid()):
        rank = _rank_of(process)
        if rank and is_stopped(process):
            yield process, rank


def _rank_of(process: int) -> str:
    """From the environment that it was started with; "" if it is no rank."""
    with suppress(OSError):
        for variable in Path(f"/proc/{process}/environ").read_bytes().split(b"\0"):
            name, _, value = variable.partition(b"=")
            if name == b"RANK":
                return value.decode()
    return ""
