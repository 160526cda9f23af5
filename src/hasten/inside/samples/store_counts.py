"""Counters of the processes that read samples from a store, in memory that they share with the one that
started them.
"""

from __future__ import annotations

import mmap
import os
import struct
import weakref
from contextlib import suppress

_HEAD = 512  # bytes: why the store was given up
_SLOT = struct.Struct("<QQQ")
_SLOTS = 16384
_EACH = 64  # slots that are taken at once: worker processes of one loader
_SIZE = _HEAD + _SLOTS * _SLOT.size


class Counts:
    """Samples that came from a store, that were made, and that were compared with one made again. Linux only.

    It can be handed to processes that are started again while this one lives. Who drops it without closing
    leaves no file open: a script may create a loader for each evaluation.
    """

    def __init__(self) -> None:
        file = os.memfd_create("hasten-samples")
        os.ftruncate(file, _SIZE)
        self._path, self._taken = f"/proc/{os.getpid()}/fd/{file}", 0
        self._hold(file)

    def __getstate__(self) -> str:
        return self._path

    def __setstate__(self, path: str) -> None:
        """Raises OSError if the process that created it is gone."""
        self._path, self._taken = path, 0
        self._hold(os.open(path, os.O_RDWR | os.O_CLOEXEC))

    def _hold(self, file: int) -> None:
        self._close_file = weakref.finalize(self, os.close, file)
        self._close_file.atexit = False
        self._memory = mmap.mmap(file, _SIZE)

    def close(self) -> None:
        """Nothing more is counted here; others that have it go on."""
        self._memory.close()
        self._close_file()

    def take(self) -> int:
        """The first of some slots that no living process writes to."""
        first = self._taken
        self._taken = (first + _EACH) % _SLOTS
        return first

    def add(self, slot: int, hits: int, made: int, checked: int) -> None:
        """Call it from one process per slot."""
        at = _HEAD + slot % _SLOTS * _SLOT.size
        before = _SLOT.unpack_from(self._memory, at)
        _SLOT.pack_into(self._memory, at, before[0] + hits, before[1] + made, before[2] + checked)

    def total(self) -> tuple[int, int, int]:
        """Samples that came from the store, that were made, that were compared."""
        numbers = list(_SLOT.iter_unpack(self._memory[_HEAD:]))
        return sum(n[0] for n in numbers), sum(n[1] for n in numbers), sum(n[2] for n in numbers)

    def give_up(self, why: str) -> None:
        """All readers of the store make their samples themselves from now on."""
        if not self._memory[0]:
            told = why.encode()[: _HEAD - 2]
            self._memory[1 : 1 + len(told)] = told
            self._memory[0] = 1

    @property
    def given_up(self) -> str:
        """Why the store is read no longer; "" while it is."""
        if not self._memory[0]:
            return ""
        with suppress(UnicodeDecodeError):
            return bytes(self._memory[1:_HEAD]).rstrip(b"\0").decode()
        return "samples changed"
