"""When a checkpoint is due. Ranks take theirs after the same step, which rank 0 tells ahead in a file.

Checkpoints are taken at boundaries between steps: one optimizer's step ends there, or several.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from ...records.run_checkpoints import RunCheckpoints
from .cannot import Cannot
from .store import path_of

_NEXT, _ASKED = "next", "asked-to-stop"  # files in the folder of all ranks
_LEAD_SECONDS, _LEAD_BOUNDARIES = 0.5, 2  # no rank is further ahead of rank 0 when it looks
_LOOK_SECONDS = 0.1  # between two looks for what others tell
_WRITING_SECONDS = 20.0  # that the others may take longer than rank 0 to write a last checkpoint


class Schedule:
    """Of one process. ``stops``: the process is to end once the checkpoint is written."""

    def __init__(self, asked: RunCheckpoints, now: Callable[[], float] = time.perf_counter) -> None:
        self._asked, self._now = asked, now
        self._steps = 0  # at the last checkpoint
        self._time = self._now()
        self.stops = False

    def begin(self) -> None:
        """Before anything of the script runs. Raises OSError."""

    def training_begins(self) -> None:
        """A first step has ended. Raises Cannot where no checkpoint would be of use."""

    def wait_for_others(self, step: int) -> None:
        """Until all ranks have written theirs of that step, or some seconds."""

    def took(self, steps: int) -> None:
        """A checkpoint after so many steps, or the training goes on from there."""
        self._steps, self._time = steps, self._now()

    def is_due(self, steps: int, busy: bool, asked: bool) -> bool:
        """After so many steps. ``busy``: the last one is not written yet. ``asked``: the process got a signal
        to stop.
        """
        self.stops = asked
        return asked or (self._is_time(steps) and not busy)

    def _is_time(self, steps: int) -> bool:
        if self._asked.every_steps:
            return steps - self._steps >= self._asked.every_steps
        return self._now() - self._time >= self._asked.every_seconds


@dataclass(frozen=True)
class _Told:
    """Checkpoints are to be taken after ``step``; then all end if it ``stops``."""

    step: int = 0
    stops: bool = False

    def as_bytes(self) -> bytes:
        return b"%15d %d\n" % (self.step, self.stops)

    @classmethod
    def read(cls, content: bytes) -> _Told:
        """What is half written says nothing."""
        words = content.split()
        whole = len(content) == len(cls().as_bytes()) and content.endswith(b"\n")
        return cls(int(words[0]), words[1] == b"1") if whole and len(words) == 2 else cls()


class OfRanks(Schedule):
    """Of one of several: ranks train in step with each other, to within one."""

    def __init__(self, asked: RunCheckpoints, now: Callable[[], float] = time.perf_counter) -> None:
        super().__init__(asked, now)
        self._path, self._stop_path = (os.path.join(asked.folder, name) for name in (_NEXT, _ASKED))
        self._leads = asked.rank == 0
        self._told = _Told()  # not taken yet, if it has a step
        self._last: tuple[int, float] | None = None  # steps and time at the last boundary
        self._fastest, self._at_once = math.inf, 1  # of boundaries: seconds between two, steps between two
        self._looked = 0.0
        self._passed_on = False

    def begin(self) -> None:
        """What the run that ended told is over."""
        if self._leads:
            with suppress(FileNotFoundError):
                os.unlink(self._stop_path)
            self._tell(_Told())

    def training_begins(self) -> None:
        missing = [folder for folder in self._asked.folders if not os.path.isdir(folder)]
        if missing:
            raise Cannot(
                f"{missing[0]} is missing: the folder of checkpoints must be one that all hosts share"
            )

    def took(self, steps: int) -> None:
        super().took(steps)
        if self._told.step <= steps:
            self._told = _Told()

    def wait_for_others(self, step: int) -> None:
        """Ours end once rank 0 does."""
        until = time.monotonic() + _WRITING_SECONDS
        while self._leads and time.monotonic() < until:
            if all(os.path.exists(path_of(folder, step)) for folder in self._asked.folders):
                return
            time.sleep(_LOOK_SECONDS)

    def is_due(self, steps: int, busy: bool, asked: bool) -> bool:
        now = self._now()
        if self._last is not None:
            self._fastest = min(self._fastest, now - self._last[1])
            self._at_once = max(self._at_once, steps - self._last[0])
        self._last = (steps, now)
        if asked and not (self._leads or self._passed_on):
            self._pass_on()
        if not self._told.step and (asked or now - self._looked >= _LOOK_SECONDS):
            self._looked = now
            self._look(steps, busy, asked)
        due = 0 < self._told.step <= steps
        self.stops = due and self._told.stops
        return due or (self._asked.every_steps > 0 and self._is_time(steps))

    def _look(self, steps: int, busy: bool, asked: bool) -> None:
        if not self._leads:
            with suppress(OSError), open(self._path, "rb") as file:  # opened anew: NFS then asks its server
                told = _Told.read(file.read())
                self._told = told if told.step > self._steps and told.step >= steps else _Told()
            return
        if self._fastest == math.inf:
            return
        stops = asked or os.path.exists(self._stop_path)
        if stops or (not self._asked.every_steps and self._is_time(steps) and not busy):
            told = _Told(steps + self._lead(), stops)
            with suppress(OSError):  # that the folder is gone, or the disk full, others say
                self._tell(told)
                self._told = told

    def _lead(self) -> int:
        """In steps: none are that fast."""
        return math.ceil(self._at_once * (_LEAD_BOUNDARIES + _LEAD_SECONDS / self._fastest))

    def _tell(self, told: _Told) -> None:
        """In place: a reader on another host must not find the file missing."""
        descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.pwrite(descriptor, told.as_bytes(), 0)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def _pass_on(self) -> None:
        """Rank 0 may not have got the signal."""
        self._passed_on = True
        with suppress(OSError), open(self._stop_path, "wb"):
            pass


def schedule_of(asked: RunCheckpoints) -> Schedule:
    return OfRanks(asked) if asked.ranks > 1 else Schedule(asked)
