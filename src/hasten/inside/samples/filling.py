"""Fills a store: forked children make the samples that are missing, each in a data file of its own.

A child makes samples as a loader's worker process does: with one thread, and apart from the training. It
notes which files it opened for each sample, and reads those that were open at offsets of its own. Its
random streams must not move.
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from types import ModuleType
from typing import NoReturn

from ..own_offsets import open_files_anew
from ..random_state import fingerprint
from .files_read import FilesRead, bytes_read, has_changed, reads_unseen
from .store_files import Store, Writer
from .store_folders import is_full
from .stored_form import Unstorable, encode

MOST_CHILDREN = 16
_LOOKED_AT = 32  # samples of each child, for what they read unseen
_LOOK_SECONDS = 5.0  # for whether files of samples that are kept have changed


@dataclass(frozen=True)
class Filled:
    """``why``: what ended it before all samples were made; "" where nothing did. ``fatal``: the store must
    not be used then. ``unseen``: files were read that nobody saw opened.
    """

    made: int
    why: str = ""
    fatal: bool = False
    unseen: bool = False


def fill(
    torch: ModuleType, store: Store, make: Callable[[int], object], children: int, seconds: float, most: int
) -> Filled:
    """For whoever holds the store's lock. ``make``: a sample by its index. ``most``: bytes that the store may
    have. Returns when all are made, or after so many ``seconds``.
    """
    wanted = sorted({*store.missing(), *_with_changed_files(store)})
    if not wanted:
        return Filled(0)
    count = max(1, min(children, MOST_CHILDREN, len(wanted)))
    deadline = time.monotonic() + seconds
    sys.stdout.flush()
    sys.stderr.flush()
    readers: dict[int, int] = {}  # descriptor -> process
    try:
        for number in range(count):
            read_end, write_end = os.pipe()
            parent, child = os.getpid(), os.fork()
            if child == 0:
                work = _Work(torch, store, make, number, wanted[number::count], deadline, most // count)
                _work_and_exit(work, parent, write_end)
            os.close(write_end)
            readers[read_end] = child
        answers = [_answer_of(read_end, deadline + 5.0) for read_end in readers]
    finally:
        for read_end, child in readers.items():
            os.close(read_end)
            with suppress(ProcessLookupError, ChildProcessError):  # reaped already where SIGCHLD is ignored
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)
    return Filled(
        sum(answer.made for answer in answers),
        next((answer.why for answer in sorted(answers, key=lambda a: not a.fatal) if answer.why), ""),
        any(answer.fatal for answer in answers),
        any(answer.unseen for answer in answers),
    )


def _with_changed_files(store: Store) -> list[int]:
    """Samples that are kept and were made from files that are not as they were; as many as there is time to
    look at.
    """
    found, until = [], time.monotonic() + _LOOK_SECONDS
    for number in range(store.header.samples):
        if has_changed(store.files_of(number)):
            found.append(number)
        if time.monotonic() > until:
            break
    return found


@dataclass(frozen=True)
class _Work:
    torch: ModuleType
    store: Store
    make: Callable[[int], object]
    number: int
    wanted: Sequence[int]
    deadline: float
    most_bytes: int


def _work_and_exit(work: _Work, parent: int, write_end: int) -> NoReturn:
    """All that a child does; nobody asks it for more than its answer, and it ends with its parent."""
    try:
        silence = os.open(os.devnull, os.O_WRONLY)
        os.dup2(silence, 1)
        os.dup2(silence, 2)
        sys.stdout = sys.stderr = os.fdopen(silence, "w")
        work.torch.set_num_threads(1)
        try:
            open_files_anew()
            filled = _work(work, parent)
        except OSError as error:
            full = is_full(error)
            filled = Filled(0, "the disk is full" if full else f"{error.strerror or error}", fatal=True)
        os.write(write_end, json.dumps([filled.made, filled.why, filled.fatal, filled.unseen]).encode())
    finally:
        os._exit(0)


def _work(work: _Work, parent: int) -> Filled:
    writer = Writer(work.store, work.number, work.most_bytes)
    streams, seen = fingerprint(work.torch), FilesRead()
    made, unseen = 0, False
    for index in work.wanted:
        if time.monotonic() > work.deadline:
            return Filled(made, "there was no more time", unseen=unseen)
        if os.getppid() != parent:
            os._exit(0)
        before = bytes_read() if made < _LOOKED_AT else -1
        try:
            layout, body = encode(work.make(index))
        except Unstorable as error:
            return Filled(made, f"samples hold {error}", unseen=unseen)
        except Exception:  # the data set cannot make this one: it says so itself when it is asked
            seen.since()
            continue
        files = seen.since()
        if before >= 0 and not work.store.header.files:
            unseen = unseen or reads_unseen(before, bytes_read(), files)
        if made % _LOOKED_AT == 0 and fingerprint(work.torch) != streams:
            return Filled(made, "making its samples draws random numbers", fatal=True)
        if not writer.write(index, layout, files, body):
            return Filled(made, "there is no more room", unseen=unseen)
        made += 1
    if fingerprint(work.torch) != streams:
        return Filled(made, "making its samples draws random numbers", fatal=True)
    return Filled(made, unseen=unseen)


def _answer_of(read_end: int, deadline: float) -> Filled:
    answer = b""
    while select.select([read_end], [], [], max(0.0, deadline - time.monotonic()))[0]:
        part = os.read(read_end, 65536)
        if not part:
            break
        answer += part
    if not answer:
        return Filled(0, "a process that makes samples did not end, or was killed")
    made, why, fatal, unseen = json.loads(answer)
    return Filled(int(made), str(why), bool(fatal), bool(unseen))
