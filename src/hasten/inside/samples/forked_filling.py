"""Makes the samples of a cache in several processes at once: forked children make a part each, while the
training process makes its own part.

A child makes samples like a loader's worker process: with one thread, and separate from the training. It
writes them as plain bytes (``stored_form``) into shared memory, where the samples then stay. It begins with
some that were already made here: if its results differ, even in a last bit that depends on the number of
threads, none of its samples is used. Any failure in a child only costs time: whatever it did not make is made
here.

A child takes longer for each sample: it writes the bytes, and copies every page that it touches. So the
training process, once its own part is done, takes over samples from the end of what is left to the slowest
child (``_Child.take_over``).
"""

from __future__ import annotations

import fcntl
import mmap
import os
import socket
import stat
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import chain
from types import ModuleType
from typing import Any, NoReturn, TypeVar

from ..process.openmp_pool import end_idle_threads
from ..process.own_offsets import open_files_anew
from ..random_state import fingerprint, state_of_generator
from .forked import be_quiet_and_single, end
from .made_records import RecordWriter, read_records
from .private_mapping import map_privately
from .sampling_proof import same_sample

MOST_PROCESSES = 8
_WORTH_SECONDS = 0.2  # that one process would need for the rest
_TIMED = 32  # samples timed to estimate the rest
_PATIENCE_SECONDS = 2.0  # for children to end, when all samples have been begun
_SLOWER = 5.0  # times as long as here, that a child may take for the last one
_AT_ONCE = 16  # samples that are taken over from a child
_BEGUN, _LIMIT = range(2)  # numbers that a child shares with us
_MEMORY = ("/memfd:", "/dev/shm/")  # not files that the script reads at an offset
_COMPARED = 2  # samples that a child makes again, to compare with ours

Make = Callable[[int], object]
Made = TypeVar("Made")


def made_in_parallel(
    torch: ModuleType,
    make: Callable[[int], Made],
    wanted: Sequence[int],
    generators: Sequence[object] = (),
    same: Callable[[Made, Made], bool] = same_sample,
) -> Iterator[tuple[int, Made]]:
    """(index, what ``make`` returns) for all ``wanted``, in any order. An error in making one here is raised.
    ``generators``: of random numbers, that making a sample may draw from.
    """
    began = time.monotonic()
    first: dict[int, Made] = {}
    for index in wanted[:_TIMED]:
        sample = make(index)
        if len(first) < _COMPARED:
            first[index] = sample
        yield index, sample
    each, rest = (time.monotonic() - began) / _TIMED, wanted[_TIMED:]
    processes = min(MOST_PROCESSES, cores()) if each * len(rest) > _WORTH_SECONDS and rest else 1
    processes = max(1, min(processes, len(rest)))
    shares = [rest[number::processes] for number in range(processes)]
    children: list[_Child] = []
    if processes > 1:
        end_idle_threads()
    try:
        for share in shares[1:]:
            children.append(_Child(torch, make, list(first), share, generators))
        for index in shares[0]:
            yield index, make(index)
        while any(child.left > 0 for child in children):
            for index in max(children, key=lambda child: child.left).take_over():
                yield index, make(index)
        for child in children:
            remaking = each * len(child.share)
            found = child.samples(max(_PATIENCE_SECONDS, _SLOWER * each, remaking / 2))
            as_here = all(index in found and same(found.pop(index), ours) for index, ours in first.items())
            for index in child.share:
                yield index, found[index] if as_here and index in found else make(index)
    finally:
        for child in children:
            child.stop()


def cores() -> int:
    """Cores that may work at once; 1 if a child could not be trusted with the open files."""
    if not hasattr(os, "memfd_create") or shares_what_it_reads():
        return 1
    return len(os.sched_getaffinity(0))


def shares_what_it_reads() -> bool:
    """Whether the process has something open that samples may come from and that two processes cannot read at
    once: a connection to another process (unnamed socket pairs, as to a child, do not count), or a file open
    for reading and writing, whose offset a fork shares.
    """
    return bool(shared_descriptors())


def shared_descriptors() -> list[int]:
    """Of what ``shares_what_it_reads``."""
    numbers = [int(name) for name in os.listdir("/proc/self/fd")]
    return [number for number in numbers if number > 2 and _is_shared(number)]


def _is_shared(number: int) -> bool:
    try:
        mode = os.fstat(number).st_mode
        if stat.S_ISSOCK(mode):
            return _has_named_peer(number)
        both = fcntl.fcntl(number, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDWR
        return both and stat.S_ISREG(mode) and not os.readlink(f"/proc/self/fd/{number}").startswith(_MEMORY)
    except OSError:  # the descriptor that listed them is closed by now
        return False


def _has_named_peer(number: int) -> bool:
    found = socket.socket(fileno=number)
    try:
        return bool(found.getpeername())
    except OSError:  # not connected
        return False
    finally:
        found.detach()  # we must not close it


class _Child:
    """One forked process with its share of the samples, of which ``first`` were made here before."""

    def __init__(
        self,
        torch: ModuleType,
        make: Make,
        first: Sequence[int],
        share: Sequence[int],
        generators: Sequence[object],
    ) -> None:
        self._torch, self._whole_share = torch, share
        self._shared = memoryview(mmap.mmap(-1, mmap.PAGESIZE)).cast("q")
        self._shared[_LIMIT] = len(share)
        self._memory = os.memfd_create("samples", os.MFD_CLOEXEC)
        sys.stdout.flush()
        sys.stderr.flush()
        parent, self._process = os.getpid(), os.fork()
        if self._process == 0:
            wanted = chain(first, _until_the_limit(share, self._shared))
            _make_and_exit(torch, make, wanted, generators, self._memory, parent)

    @property
    def share(self) -> Sequence[int]:
        """The samples that are its to make."""
        return self._whole_share[: self._shared[_LIMIT]]

    @property
    def left(self) -> int:
        """How many of them it has not begun."""
        return self._shared[_LIMIT] - self._shared[_BEGUN]

    def take_over(self) -> Sequence[int]:
        """Some of those, from the end, which are no longer its. One that it begins at this moment is made
        twice.
        """
        limit = self._shared[_LIMIT]
        count = max(0, min(_AT_ONCE, (self.left + 1) // 2))
        self._shared[_LIMIT] = limit - count
        return self._whole_share[limit - count : limit]

    def samples(self, patience: float) -> dict[int, Any]:
        """What it made, by index; nothing if it fails or does not end in so many seconds."""
        ended, status, until = 0, 1, time.monotonic() + patience
        with suppress(ChildProcessError):  # reaped already where SIGCHLD is ignored
            while True:
                ended, status = os.waitpid(self._process, os.WNOHANG)
                if ended or time.monotonic() >= until:
                    break
                time.sleep(0.005)
        if ended:
            self._process = 0
        size = os.fstat(self._memory).st_size
        if not ended or status or not size:
            return {}
        return read_records(self._torch, map_privately(self._torch, self._memory, size))

    def stop(self) -> None:
        if self._process:
            end(self._process)
        os.close(self._memory)


# ---- in a child
def _until_the_limit(share: Sequence[int], shared: memoryview) -> Iterator[int]:
    """The share up to the limit, which sinks meanwhile."""
    for position, index in enumerate(share):
        if position >= shared[_LIMIT]:
            return
        shared[_BEGUN] = position + 1
        yield index


def _make_and_exit(
    torch: ModuleType,
    make: Make,
    wanted: Iterable[int],
    generators: Sequence[object],
    memory: int,
    parent: int,
) -> NoReturn:
    """Exits with 0 only if nothing was drawn: samples that draw are not kept."""
    code = 1
    try:
        be_quiet_and_single(torch)
        open_files_anew()
        before = fingerprint(torch), [state_of_generator(one) for one in generators]
        _write(memory, make, wanted, parent)
        after = fingerprint(torch), [state_of_generator(one) for one in generators]
        code = 0 if after == before else 1
    finally:
        os._exit(code)


def _write(memory: int, make: Make, wanted: Iterable[int], parent: int) -> None:
    """Write up to the first that cannot be made, or kept as plain bytes."""
    writer = RecordWriter(memory)
    for index in wanted:
        if os.getppid() != parent:
            os._exit(1)
        try:
            writer.add(index, make(index))
        except Exception:
            break
    writer.flush()
