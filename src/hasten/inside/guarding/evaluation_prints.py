"""What a script prints during evaluations, for the guard to compare."""

from __future__ import annotations

import sys
from collections import deque
from contextlib import suppress

from ..seams import Call, Seams

_MOST_LINES = 40  # after an evaluation, the last ones
_MOST_WRITES = 2000  # between two steps, of one stream
_LONGEST = 200  # characters of a line


class Printed:
    """Reads what is written to the standard streams. Of a line that a progress bar rewrites, only the last
    form counts.
    """

    def __init__(self, seams: Seams) -> None:
        self._written: list[deque[str]] = []
        for stream in (sys.stdout, sys.stderr):
            with suppress(AttributeError, TypeError):  # missing, or ``write`` cannot be replaced
                seams.replace(stream, "write", self._around)

    def take(self) -> tuple[str, ...]:
        """The lines with numbers completed since the last call."""
        lines = [line for written in self._written for line in _lines_of(written)]
        self.forget()
        return tuple(line for line in lines if any(map(str.isdigit, line)))[-_MOST_LINES:]

    def forget(self) -> None:
        for written in self._written:
            written.clear()

    def _around(self, original: Call) -> Call:
        written = deque[str](maxlen=_MOST_WRITES)
        self._written.append(written)

        def write(text: str) -> object:
            written.append(text)
            return original(text)

        return write


def _lines_of(written: deque[str]) -> list[str]:
    text = "".join(written)
    ended = text.split("\n")[:-1]
    return [line.rstrip("\r").rpartition("\r")[2][:_LONGEST] for line in ended]
