"""What processes on other hosts say on standard error: passed on, and the first failure is kept.

On many hosts many ranks fail because of one. What came first is the cause.
"""

from __future__ import annotations

import re
import threading
from typing import IO

from ..tail import show

_NAMES = re.compile(
    rb"^hasten: ((?:rank \d|torchrun|port \d)[^\n]* on host [^\n]*|(?:host|error:) [^\n]*"
    rb"|[^\n]* cannot be trained by [^\n]*)$",
    re.MULTILINE,
)
_MOST_BYTES = 2**13  # of a line that has not ended
_LAST_SECONDS = 2.0


class Overheard:
    """``first``: the line, without our name; "" if there was none."""

    def __init__(self) -> None:
        self.first = ""
        self._readers: list[threading.Thread] = []

    def listen(self, pipe: IO[bytes]) -> None:
        """In the background, to its end."""
        reader = threading.Thread(target=self._read, args=(pipe,), name="hasten output", daemon=True)
        reader.start()
        self._readers.append(reader)

    def finish(self) -> None:
        """Return once all was passed on; another process may hold a pipe open for ever."""
        for reader in self._readers:
            reader.join(_LAST_SECONDS)

    def _read(self, pipe: IO[bytes]) -> None:
        begun, showing = b"", True
        with pipe:
            while chunk := pipe.read1(2**16):  # type: ignore[attr-defined]
                showing = showing and show(chunk)
                lines, _, rest = (begun + chunk).rpartition(b"\n")
                begun = rest[-_MOST_BYTES:]
                found = _NAMES.search(lines) if not self.first else None
                if found is not None:
                    self.first = found[1].decode(errors="replace")
