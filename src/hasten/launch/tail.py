"""The end of a rank's output."""

from __future__ import annotations

import os
import sys
import threading
from typing import IO

from ..saying import without_colours

_MOST_BYTES = 2**16
_LAST_WORDS_SECONDS = 1.0


class Tail(threading.Thread):
    """Reads ``pipe`` to its end and keeps the last part; with ``shown``, copies it to standard error."""

    def __init__(self, pipe: IO[bytes], shown: bool) -> None:
        super().__init__(daemon=True)
        self.shown = shown
        self._pipe = pipe
        self._kept = b""

    def run(self) -> None:
        showing = self.shown
        with self._pipe:
            while chunk := os.read(self._pipe.fileno(), 2**16):
                self._kept = (self._kept + chunk)[-_MOST_BYTES:]
                if showing:
                    showing = show(chunk)

    def finish(self) -> None:
        """Return once all was read; another process may hold the pipe open for ever."""
        if self.ident is not None:
            self.join(_LAST_WORDS_SECONDS)

    def lines(self, many: int) -> list[str]:
        """The last ones, without what a progress bar has overwritten."""
        text = without_colours(self._kept.decode(errors="replace")).rstrip("\n")
        return [line.rstrip("\r").rpartition("\r")[2] for line in text.split("\n") if text][-many:]


def show(chunk: bytes) -> bool:
    """Write it to standard error as it is; whether that can still be done."""
    try:
        while chunk:
            chunk = chunk[os.write(sys.__stderr__.fileno() if sys.__stderr__ else 2, chunk) :]
    except OSError:
        return False
    return True
