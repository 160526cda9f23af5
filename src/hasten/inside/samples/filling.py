"""Fills a store: forked children make the missing samples, each into its own data file.

A child makes samples like a loader's worker process: with one thread, and separate from the training. It
notes which files it opened for each sample, and reads already open ones at its own offsets. It leaves out
samples that draw random numbers, or in which the script's code met an error: those are made again whenever
they are requested. If there are more than a few, the store is useless.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import astuple, dataclass
from functools import partial
from types import ModuleType
from typing import NoReturn

from ..process.openmp_pool import end_idle_threads
from ..process.own_offsets import open_files_anew
from ..process.readable import readable
from .draws_in_samples import MakingWatch, Seen
from .files_read import FilesRead, has_changed
from .forked import be_quiet_and_single, end
from .store_files import Store, Writer
from .store_folders import is_full
from .stored_form import Unstorable, encode

MOST_CHILDREN = 16
_LOOKED_AT = 32  # samples of each child, checked for unseen reads
_LOOK_SECONDS = 5.0  # to check whether files of kept samples have changed
_FEW, _FEW_SHARE = 8, 0.1  # samples that may be left out, per child or of those it tried


@dataclass(frozen=True)
class Filled:
    """``why``: what ended it before all samples were made; "" if nothing did. ``fatal``: then the store must
    not be used. ``unseen``: files were read without being seen opened. ``left_out``: samples that must be
    made again each time.
    """

    made: int
    why: str = ""
    fatal: bool = False
    unseen: bool = False
    left_out: int = 0


@dataclass(frozen=True)
class Making:
    """How a store's samples are made. ``make``: a sample of ``dataset`` by its index."""

    torch: ModuleType
    dataset: object
    make: Callable[[int], object]


def fill(
    making: Making, store: Store, asked: Collection[int], children: int, seconds: float, most: int
) -> Filled:
    """Call it holding the store's lock. ``asked``: the samples that must be there. ``most``: bytes that the
    store may have. Returns when all are made, or after ``seconds``.
    """
    wanted = sorted({*store.missing(), *_with_changed_files(store)}.intersection(asked))
    if not wanted:
        return Filled(0)
    count = max(1, min(children, MOST_CHILDREN, len(wanted)))
    deadline = time.monotonic() + seconds
    sys.stdout.flush()
    sys.stderr.flush()
    readers: dict[int, int] = {}  # descriptor -> process
    end_idle_threads()
    try:
        for number in range(count):
            read_end, write_end = os.pipe()
            parent, child = os.getpid(), os.fork()
            if child == 0:
                work = _Work(making, store, number, wanted[number::count], deadline, most // count)
                _work_and_exit(work, parent, write_end)
            os.close(write_end)
            readers[read_end] = child
        answers = [_answer_of(read_end, deadline + 5.0) for read_end in readers]
    finally:
        for read_end, child in readers.items():
            os.close(read_end)
            end(child)
    return Filled(
        sum(answer.made for answer in answers),
        next((answer.why for answer in sorted(answers, key=lambda a: not a.fatal) if answer.why), ""),
        any(answer.fatal for answer in answers),
        any(answer.unseen for answer in answers),
        sum(answer.left_out for answer in answers),
    )


def _with_changed_files(store: Store) -> list[int]:
    """Kept samples whose files have changed; as many as there is time to check."""
    found, until = [], time.monotonic() + _LOOK_SECONDS
    for number in range(store.header.samples):
        if has_changed(store.files_of(number)):
            found.append(number)
        if time.monotonic() > until:
            break
    return found


@dataclass(frozen=True)
class _Work:
    making: Making
    store: Store
    number: int
    wanted: Sequence[int]
    deadline: float
    most_bytes: int


def _work_and_exit(work: _Work, parent: int, write_end: int) -> NoReturn:
    """All that a child does; it gives one answer, and ends with its parent."""
    try:
        be_quiet_and_single(work.making.torch)
        try:
            open_files_anew()
            filled = _Child(work, parent).work()
        except OSError as error:
            full = is_full(error)
            filled = Filled(0, "the disk is full" if full else f"{error.strerror or error}", fatal=True)
        os.write(write_end, json.dumps(astuple(filled)).encode())
    finally:
        os._exit(0)


class _Child:
    def __init__(self, work: _Work, parent: int) -> None:
        self._work, self._parent = work, parent
        self._writer = Writer(work.store, work.number, work.most_bytes)
        self._watch = MakingWatch(work.making.torch, work.making.dataset, apart=True)
        self._files = FilesRead(os.path.dirname(work.store.path))
        self._made = self._drew = self._failed = 0

    def work(self) -> Filled:
        for number, index in enumerate(self._work.wanted):
            if time.monotonic() > self._work.deadline:
                return self._filled("there was no more time")
            if os.getppid() != self._parent:
                os._exit(0)
            if not number:
                self._files.settle(partial(self._work.making.make, index))
            try:
                ended = self._keep(index, look=number < _LOOKED_AT)
            except Unstorable as error:
                return self._filled(f"samples hold {error}")
            ended = ended or self._too_many(number + 1)
            if ended is not None:
                return ended
        return self._filled("")

    def _keep(self, index: int, look: bool) -> Filled | None:
        """What ended it at this sample; None if nothing did."""
        self._watch.begin()
        try:
            layout, body = encode(self._work.making.make(index))
        except Unstorable:
            raise
        except Exception:  # the data set cannot make this one: its own error will say so
            self._watch.end()
            self._files.since()
            return None
        seen, files = self._watch.end(), self._files.since(look)
        if self._files.network:
            return self._filled("its samples come over a network", fatal=True)
        if self._is_another_next_time(seen):
            return None
        if not self._writer.write(index, layout, files, body):
            return self._filled("there is no more room")
        self._made += 1
        return None

    def _is_another_next_time(self, seen: Seen) -> bool:
        self._drew += seen.drew
        self._failed += bool(seen.error)
        return seen.drew or bool(seen.error)

    def _too_many(self, looked_at: int) -> Filled | None:
        allowed = max(_FEW, _FEW_SHARE * looked_at)
        if self._drew > allowed:
            return self._filled("making its samples draws random numbers", fatal=True)
        return self._filled("making its samples meets errors") if self._failed > allowed else None

    def _filled(self, why: str, fatal: bool = False) -> Filled:
        return Filled(self._made, why, fatal, self._files.unseen, self._drew + self._failed)


def _answer_of(read_end: int, deadline: float) -> Filled:
    answer = b""
    while readable(read_end, deadline - time.monotonic()):
        part = os.read(read_end, 65536)
        if not part:
            break
        answer += part
    if not answer:
        return Filled(0, "a process that makes samples did not end, or was killed")
    return Filled(*json.loads(answer))
