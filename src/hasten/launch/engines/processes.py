"""A job that is one or several processes of this machine, each of which leads to a host."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress

from ...errors import WorkerError
from ...records.launch_job import Nodes
from ...saying import say
from ..programs import path_of
from .engine import Start, Submission
from .overheard import Overheard

GRACE_SECONDS = 20.0  # for the others to end by themselves, once one has failed
PATIENCE_SECONDS = 15.0  # for an end of their own; the far end of ssh kills what has not ended in ten
_SSHS_OWN = 255  # ssh's exit code for an error of its own
_LAST_SECONDS = 2.0  # between SIGTERM and SIGKILL


class Processes(Submission):
    """Started at once. The exit code is 0 where enough of them end well, else the first failure's."""

    def __init__(self, starts: Sequence[Start], nodes: Nodes) -> None:
        self._least = min(nodes.least, len(starts))
        self._running: list[subprocess.Popen[bytes]] = []
        self._starts = starts
        self._first_failed: int | None = None
        self._failed: list[str] = []
        self._ends_by: float | None = None
        self._ended: set[int] = set()
        self._overheard = Overheard()
        self._unreached: list[str] = []
        self._cancelled = False
        try:
            for start in starts:
                self._running.append(_started(start))
                pipe = self._running[-1].stderr
                if pipe is not None:
                    self._overheard.listen(pipe)
        except OSError as error:
            self.cancel()
            raise WorkerError(f"{start.argv[0]} could not be started: {error}") from None

    @property
    def label(self) -> str:
        """The hosts that failed, in the order in which they did."""
        return ", ".join(self._failed)

    @property
    def cause(self) -> str:
        return self._overheard.first or next(iter(self._unreached), "")

    def poll(self) -> int | None:
        for number, process in enumerate(self._running):
            if number not in self._ended and process.poll() is not None:
                self._ended.add(number)
                _let_go(process)
                if process.returncode:
                    self._note_failure(number, process.returncode)
        if len(self._ended) < len(self._running):
            if self._ends_by is not None and time.monotonic() > self._ends_by:
                self.cancel()
            return None
        self._overheard.finish()
        well = len(self._running) - len(self._failed)
        return 0 if well >= self._least and well else self._first_failed

    def _note_failure(self, number: int, code: int) -> None:
        there = self._starts[number].there
        self._failed.append(there.host if there else self._starts[number].argv[0])
        if there and code == _SSHS_OWN and not self._cancelled:
            self._unreached.append(
                f"ssh does not reach host {there.host}, or has lost it: it is down, or the network to it is "
                "cut"
            )
            say(f"hasten: {self._unreached[-1]}")
        if self._first_failed is None:
            self._first_failed = 128 - code if code < 0 else code
        if len(self._running) - len(self._failed) < self._least and self._ends_by is None:
            self._ends_by = time.monotonic() + GRACE_SECONDS

    def cancel(self) -> None:
        """End all processes. One that leads to another host gets time to end by itself, which it does once
        nothing of ours runs there any more.
        """
        self._cancelled = True
        for start, process in zip(self._starts, self._running, strict=False):
            _let_go(process)
            if start.there is None:
                _signal(process, signal.SIGTERM)
        self._wait(PATIENCE_SECONDS)
        for number in (signal.SIGTERM, signal.SIGKILL):
            for process in self._running:
                _signal(process, number)
            self._wait(_LAST_SECONDS)

    def _wait(self, seconds: float) -> None:
        ends_by = time.monotonic() + seconds
        for process in self._running:
            with suppress(subprocess.TimeoutExpired):
                process.wait(max(0.0, ends_by - time.monotonic()))


def _started(start: Start) -> subprocess.Popen[bytes]:
    process = subprocess.Popen(
        [path_of(start.argv[0]) or start.argv[0], *start.argv[1:]],
        env={**os.environ, **start.environment},
        stdin=subprocess.PIPE if start.there else None,
        stderr=subprocess.PIPE if start.there else None,
        start_new_session=start.there is not None,  # the terminal's Ctrl-C is for us to pass on
    )
    if process.stdin is not None and start.there is not None:
        with suppress(OSError):  # it has ended already, and poll will show that
            process.stdin.write(start.there.line.encode())
            process.stdin.flush()
    return process


def _let_go(process: subprocess.Popen[bytes]) -> None:
    """Close its standard input, which ends what it started on another host."""
    if process.stdin is not None:
        with suppress(OSError):
            process.stdin.close()


def _signal(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    if process.poll() is None:
        with suppress(ProcessLookupError):
            process.send_signal(number)
