"""Files that Python opens while samples are made here, and whether one of them has changed since.

Where a script writes such a file again, samples that were kept are not what it would read. Files that a
library opens without Python are not seen.

Source: https://docs.python.org/3/library/audit_events.html
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress

from .files_read import OPENING, FileMark, is_of_no_sample, mark_of

_LOOK_SECONDS = 0.1  # at each pass; files that are left come first at the next

_noting: tuple[int, dict[str, None]] | None = None  # the thread that makes samples, and what it opens
_hears = False  # a hook stays for the life of the process


class FilesNoted:
    def __init__(self) -> None:
        self._marks: dict[str, FileMark] = {}
        self._left: list[FileMark] = []  # to be looked at in this round
        _hear_from_now_on()

    def clear(self) -> None:
        self._marks, self._left = {}, []

    def add(self, marks: Iterable[Iterable[object]]) -> None:
        """A file that is known stays as it was when it was read first."""
        for path, size, changed in marks:
            self._marks.setdefault(str(path), (str(path), int(str(size)), int(str(changed))))

    @contextmanager
    def noting(self) -> Iterator[None]:
        """Note what is opened within."""
        with opened() as heard:
            yield
        if heard:
            self.add(map(mark_of, heard))

    @property
    def marks(self) -> list[FileMark]:
        return list(self._marks.values())

    def changed(self) -> str:
        """A file that has changed; "" if none of those has that there is time to look at."""
        self._left = self._left or self.marks
        until = time.monotonic() + _LOOK_SECONDS
        while self._left and time.monotonic() < until:
            mark = self._left.pop()
            if mark_of(mark[0]) != mark:
                return mark[0]
        return ""


@contextmanager
def opened() -> Iterator[dict[str, None]]:
    """Hears the paths that this thread opens within for reading."""
    global _noting
    heard: dict[str, None] = {}
    before, _noting = _noting, (threading.get_ident(), heard)
    try:
        yield heard
    finally:
        _noting = before


def _hear_from_now_on() -> None:
    global _hears
    if not _hears:
        sys.addaudithook(_hear)
        _hears = True


def _hear(event: str, details: tuple[object, ...]) -> None:
    if _noting is None or event not in OPENING:
        return
    thread, heard = _noting
    if thread != threading.get_ident() or not details:
        return
    with suppress(Exception):  # whatever the script opened
        path, flags = details[0], details[2] if len(details) > 2 else os.O_RDONLY
        written = isinstance(flags, int) and flags & os.O_ACCMODE == os.O_WRONLY
        if written or not isinstance(path, (str, bytes, os.PathLike)):
            return
        found = os.path.abspath(os.fsdecode(path))
        if not (found.endswith(".pyc") or found in sys.path_importer_cache or is_of_no_sample(found)):
            heard[found] = None
