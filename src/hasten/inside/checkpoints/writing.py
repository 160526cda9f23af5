"""Checkpoints are written by a thread in the background; what fails there is said once."""

from __future__ import annotations

import os
import threading
import zlib
from collections.abc import Callable
from typing import Any

from ...records.run_checkpoints import RunCheckpoints
from ...saying import say
from . import store
from .image import Image
from .tensor_bytes import content_of


class Background:
    """One checkpoint at a time. ``segments``: of the journal, those on the disk: (step, bytes, CRC-32)."""

    def __init__(self, asked: RunCheckpoints, segments: list[tuple[int, int, int]]) -> None:
        self._folder, self._folders, self._keep = asked.own_folder, asked.folders, asked.keep
        self._segments = segments
        self._pending: list[bytes] = []  # of the journal, not in a segment yet
        self._thread: threading.Thread | None = None
        self._untold: list[bytes] = []  # of what is pending, not in the tail yet
        self._tail_is_whole = True
        self._told = False
        self.lost = False  # the folder is gone, with what a restart would need
        self.written = 0

    @property
    def busy(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def wait(self) -> None:
        if self._thread is not None and os.getpid() == self._home:
            self._thread.join()

    def submit(self, step: int, image: Image, journal: bytes) -> None:
        self.wait()
        self._pending.append(journal)
        self._untold, self._tail_is_whole = [], False  # until it is written
        self._home = os.getpid()
        self._thread = threading.Thread(
            target=self._write, args=(step, image), name="hasten-checkpoint", daemon=True
        )
        self._thread.start()

    def tail(self, journal: bytes) -> None:
        """What came since the last checkpoint: a restart compares it with what it does again."""
        self._pending.append(journal)
        self._untold.append(journal)
        if not self.busy and self._tail_is_whole:
            untold, self._untold = b"".join(self._untold), []
            path = store.tail_of(self._folder, self._segments[-1][0] if self._segments else 0)
            self._guarded(lambda: _append(path, untold))

    def _write(self, step: int, image: Image) -> None:
        self._guarded(lambda: self._write_all(step, image))

    def _write_all(self, step: int, image: Image) -> None:
        count = len(self._pending)
        pending = b"".join(self._pending[:count])
        if self._segments and not os.path.exists(store.segment_of(self._folder, self._segments[-1][0])):
            raise FileNotFoundError
        store.write_whole(store.segment_of(self._folder, step), (memoryview(pending),))
        segments = [*self._segments, (step, len(pending), zlib.crc32(pending))]
        header: dict[str, Any] = {**image.header, "segments": segments}
        store.write(self._folder, step, header, map(content_of, image.storages))
        store.remove_tail(self._folder, self._segments[-1][0] if self._segments else 0)
        self._segments = segments
        self._tail_is_whole = True
        del self._pending[:count]  # more may have come meanwhile
        store.prune(self._folder, self._folders, self._keep, step)
        self.written += 1

    def _guarded(self, act: Callable[[], Any]) -> None:
        try:
            act()
            self._told = False
        except FileNotFoundError:
            self.lost = True
            self._say(
                f"{self._folder} was removed meanwhile: no more checkpoints are written; the training goes on"
            )
        except OSError as error:
            self._say(
                f"no checkpoint was written to {self._folder} ({error.strerror}); the training goes on, "
                "and the next is tried when it is due: make room there"
            )

    def _say(self, text: str) -> None:
        if not self._told:
            self._told = True
            say(f"hasten: {text}")


def _append(path: str, data: bytes) -> None:
    with open(path, "ab") as file:
        file.write(data)
