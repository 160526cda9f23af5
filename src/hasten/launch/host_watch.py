"""What torchrun does not tell of the ranks of its host: how each has failed, and which one stands stopped.

torchrun sees that a process ends, and does not say on which host. A rank that is stopped would
keep all others waiting for as long as their process group does.

Sources: pidfd_open(2); waitid(2), WNOWAIT; proc(5), /proc/PID/environ.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ..machine.vitals import killed_for_memory
from ..saying import say
from .exit_codes import how_it_ended
from .keeper import in_background
from .process_states import ask_where_it_stands, children_of, is_stopped

_OURS = b"rank_entry.py"


@dataclass
class _Rank:
    process: int
    number: str
    stopped_since: float | None = None
    killed: bool = False  # by us


class HostWatch:
    """Watches the ranks that this process has started, from ``begin`` on. One that stays stopped for
    ``deadline_seconds`` is killed, and what started it does what it does where a rank fails.
    """

    def __init__(self, deadline_seconds: float) -> None:
        self._deadline = deadline_seconds
        self._ranks: dict[int, _Rank] = {}  # by a descriptor of the process
        self._told: set[str] = set()
        self._leading: set[str] = set()
        self._killed_before = killed_for_memory()
        self._host = socket.gethostname()

    def begin(self) -> None:
        if hasattr(os, "pidfd_open"):
            in_background(self._watch, "hasten watch of ranks")

    def ended(self, rank: str, code: int) -> None:
        """Say how it failed, once. ``code``: as from subprocess, negative for a signal. A process of ours
        that leads the ranks of its host says itself why it fails.
        """
        known = rank in self._told or (code > 0 and rank in self._leading)
        if not known and code not in (0, -signal.SIGTERM):  # by which others are ended
            self._told.add(rank)
            how = how_it_ended(code, killed_for_memory() > self._killed_before)
            say(f"hasten: rank {rank} on host {self._host} {how}")

    def _watch(self) -> None:
        turn = min(1.0, self._deadline / 4)
        while True:
            self._find()
            began, ends = time.monotonic(), select.poll()
            for descriptor in self._ranks:
                ends.register(descriptor, select.POLLIN)
            for descriptor, _ in ends.poll(turn * 1000):
                self._has_ended(descriptor)
            if time.monotonic() - began > 2 * turn:  # this process was stopped itself, and they with it
                for rank in self._ranks.values():
                    rank.stopped_since = None
            for rank in self._ranks.values():
                self._look(rank)

    def _find(self) -> None:
        """New ones: torchrun may begin anew."""
        known = {rank.process for rank in self._ranks.values()}
        for process in children_of(os.getpid()):
            number = _rank_of(process)
            if number and process not in known:
                with suppress(OSError):
                    self._ranks[os.pidfd_open(process)] = rank = _Rank(process, number)
                    self._told.discard(number)
                    self._who_leads(rank)

    def _has_ended(self, descriptor: int) -> None:
        rank = self._ranks.pop(descriptor)
        with suppress(OSError):  # torchrun has asked before us
            found = os.waitid(os.P_PIDFD, descriptor, os.WEXITED | os.WNOWAIT | os.WNOHANG)
            if found is not None and not rank.killed:
                by_itself = found.si_code == os.CLD_EXITED
                self.ended(rank.number, found.si_status if by_itself else -found.si_status)
        os.close(descriptor)

    def _who_leads(self, rank: _Rank) -> None:
        """hasten's own process, which a script's may replace. One that has ended has no words any more."""
        words = b""
        with suppress(OSError):
            words = Path(f"/proc/{rank.process}/cmdline").read_bytes()
        if words:
            (self._leading.add if _OURS in words else self._leading.discard)(rank.number)

    def _look(self, rank: _Rank) -> None:
        self._who_leads(rank)
        if rank.killed or not is_stopped(rank.process, below=False):
            rank.stopped_since = None
            return
        now = time.monotonic()
        rank.stopped_since = now if rank.stopped_since is None else rank.stopped_since
        if now - rank.stopped_since > self._deadline:
            self._end(rank)

    def _end(self, rank: _Rank) -> None:
        rank.killed = True
        self._told.add(rank.number)
        where = f"rank {rank.number} on host {self._host}"
        say(
            f"hasten: {where} was stopped, and after {self._deadline:g} s nobody had continued it; "
            "it is killed"
        )
        say(f"hasten: where {where} stood:")
        ask_where_it_stands(rank.process)
        with suppress(ProcessLookupError):
            os.kill(rank.process, signal.SIGKILL)


def _rank_of(process: int) -> str:
    """From the environment that it was started with; "" if it is no rank."""
    with suppress(OSError):
        for variable in Path(f"/proc/{process}/environ").read_bytes().split(b"\0"):
            name, _, value = variable.partition(b"=")
            if name == b"RANK":
                return value.decode()
    return ""
