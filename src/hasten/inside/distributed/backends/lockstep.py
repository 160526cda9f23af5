"""How ranks that share memory wait for each other, and what they report when one does not come."""

from __future__ import annotations

import ctypes
import os
import time
from collections.abc import Sequence

from .kernel import WATCH, kernel
from .segment import Segment

WORDS = 4  # in which a rank announces what it is about to do
LINE_BYTES = 128  # of each rank's own cache lines: ranks must not share one
_LINE_WORDS = LINE_BYTES // 8
_SPINS = 2000  # reads of a rank's line before the core is yielded
_LOOK_SECONDS = 0.05  # between two checks whether the awaited rank is alive
_SEMAPHORE_BYTES = 64  # sem_t has 32 on Linux, and should have a cache line to itself


class RankGone(RuntimeError):
    """A rank ended, stopped or never arrived: the group cannot go on."""


class Disagreement(RuntimeError):
    """Ranks called different collectives, or the same one with tensors that do not match."""


def header_bytes(size: int) -> int:
    """What ``size`` ranks need before their slots: lines, then semaphores from each rank to each."""
    return (1 + size) * LINE_BYTES + size * size * _SEMAPHORE_BYTES


class Lockstep:
    """``meet`` returns once every rank has called it: by the kernel's atomic lines, or by semaphores of the C
    library, which order memory on every processor (POSIX.1, 4.12) and need no compiler. ``called``: the
    numbers by which errors name the ranks.
    """

    def __init__(self, segment: Segment, size: int, timeout_seconds: float, called: Sequence[int]) -> None:
        self._called = called
        self._segment, self._size = segment, size
        self.rank = segment.rank
        self._timeout = timeout_seconds
        words = memoryview(segment.memory)[: (1 + size) * LINE_BYTES].cast("q")
        self._lines = words[_LINE_WORDS:]
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(segment.memory))
        self.lines_address = self.address + LINE_BYTES
        self.library = kernel() if "kernel" in segment.common else None
        self.steps = ctypes.c_int64(0)
        self.side = 0
        self.spins = _SPINS if size <= len(os.sched_getaffinity(0)) else 0
        self.watch = WATCH(self._watch)
        self._waits_since: float | None = None
        self._why: BaseException | None = None
        self._semaphores = None if self.library is not None else Semaphores(self, size)

    # ---- one collective
    def begins(self, said: Sequence[int]) -> None:
        """Announce what this rank is about to do; ``agree`` compares it after the next meeting."""
        self._waits_since = None
        self.side ^= 1
        start = self.rank * _LINE_WORDS + 1 + self.side * WORDS
        for word, value in enumerate(said):
            self._lines[start + word] = value

    def said(self, rank: int) -> list[int]:
        """What that rank announced with ``begins`` about the current collective: read it only after
        a meeting, and before the next collective but one begins.
        """
        start = rank * _LINE_WORDS + 1 + self.side * WORDS
        return list(self._lines[start : start + WORDS])

    def agree(self) -> int | None:
        """A rank that calls another collective than this one; None if all agree."""
        mine = self.said(self.rank)
        return next((rank for rank in range(self._size) if self.said(rank) != mine), None)

    def meet(self) -> None:
        """Wait until all ranks are here. Raises RankGone."""
        self.steps.value += 1
        if self._semaphores is not None:
            self._semaphores.meet()
        elif self.library is not None and self.library.hasten_meet(
            self.lines_address, self.rank, self._size, self.steps.value, self.spins, self.watch
        ):
            self.give_up()

    def give_up(self) -> None:
        """Raise why the waiting ended."""
        why, self._why = self._why, None
        assert why is not None
        raise why

    # ---- while waiting
    def _watch(self, peer: int) -> int:
        """Called by the kernel; an exception cannot pass through it."""
        try:
            self.look_after(peer)
        except BaseException as error:  # KeyboardInterrupt, too
            self._why = error
            return 1
        return 0

    def look_after(self, peer: int) -> None:
        """Raise RankGone if it makes no sense to wait for that rank any longer."""
        mine, theirs = self._called[self.rank], self._called[peer]
        if self._segment.is_gone(peer):
            raise RankGone(f"rank {theirs} has ended while rank {mine} waited for it")
        now = time.monotonic()
        if self._waits_since is None:
            self._waits_since = now
        elif now - self._waits_since > self._timeout:
            raise RankGone(
                f"rank {theirs} kept rank {mine} waiting for {self._timeout:g} s: it was stopped, "
                "or is busy with something else (timeout is an argument of init_process_group)"
            )


class _Moment(ctypes.Structure):
    """``struct timespec``."""

    _fields_ = (("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long))


class Semaphores:
    """One from each rank to each other in the shared memory."""

    def __init__(self, lockstep: Lockstep, size: int) -> None:
        self._lockstep, self._size = lockstep, size
        self._library = ctypes.CDLL(None, use_errno=True)
        self._steady = hasattr(self._library, "sem_clockwait")  # glibc 2.30
        self._start = lockstep.address + (1 + size) * LINE_BYTES
        for sender in range(size):
            if self._library.sem_init(self._at(sender, lockstep.rank), 1, 0):
                raise OSError(ctypes.get_errno(), "sem_init")

    def meet(self) -> None:
        """Wait until all ranks are here: one post to each other, one wait for each. Raises RankGone."""
        rank = self._lockstep.rank
        others = [peer for peer in range(self._size) if peer != rank]
        for peer in others:
            self._library.sem_post(self._at(rank, peer))
        for peer in others:
            while not self._come(peer):
                self._lockstep.look_after(peer)

    def _come(self, peer: int) -> bool:
        semaphore = self._at(peer, self._lockstep.rank)
        for _ in range(20):
            if self._library.sem_trywait(semaphore) == 0:
                return True
        until = (time.monotonic() if self._steady else time.time()) + _LOOK_SECONDS
        moment = ctypes.byref(_Moment(int(until), int(until % 1 * 1e9)))
        if self._steady:  # the wall clock may be set back, and the wait would be as much longer
            return bool(self._library.sem_clockwait(semaphore, time.CLOCK_MONOTONIC, moment) == 0)
        return bool(self._library.sem_timedwait(semaphore, moment) == 0)

    def _at(self, sender: int, receiver: int) -> ctypes.c_void_p:
        return ctypes.c_void_p(self._start + (sender * self._size + receiver) * _SEMAPHORE_BYTES)
