"""Raise KeyboardInterrupt where a signal may: after any call that hasten's own code makes.

It runs by path as well, in a process that imports nothing of the tests.
"""

from __future__ import annotations

import contextlib
import dis
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import hasten

_OURS = str(Path(hasten.__file__).parent)
_CALLS = {number for number, name in enumerate(dis.opname) if name.startswith("CALL")}


class Interrupter:
    """Interrupts after the call ``number`` of those that are made from ``begin`` on; 0 never does."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.seen = 0
        self.where = ""  # it interrupted

    def begin(self) -> None:
        """Those that the callers of this one make count, too."""
        sys.settrace(self._entered)
        frame: FrameType | None = sys._getframe(1)
        while frame is not None:
            frame.f_trace = self._entered(frame, "call", None)
            frame = frame.f_back

    def end(self) -> None:
        sys.settrace(None)

    def _entered(self, frame: FrameType, event: str, argument: Any) -> Any:
        path = frame.f_code.co_filename
        if not path.startswith(_OURS) and path != contextlib.__file__:
            return None
        frame.f_trace_opcodes = True
        return self._at

    def _at(self, frame: FrameType, event: str, argument: Any) -> Any:
        if event == "opcode" and _follows_a_call(frame):
            self.seen += 1
            if self.seen == self.number:
                self.end()
                self.where = f"{frame.f_code.co_filename}:{frame.f_lineno}"
                raise KeyboardInterrupt
        return self._at


def _follows_a_call(frame: FrameType) -> bool:
    code, place = frame.f_code.co_code, frame.f_lasti - 2
    while place >= 0 and dis.opname[code[place]] == "CACHE":
        place -= 2
    return place >= 0 and code[place] in _CALLS


def interrupted(function: Callable[[], object], number: int) -> tuple[BaseException | None, Interrupter]:
    """What comes of ``function`` where it is interrupted after a call: None where it makes fewer."""
    interrupter = Interrupter(number)
    try:
        interrupter.begin()
        try:
            function()
        finally:
            interrupter.end()
    except BaseException as error:
        return error, interrupter
    return None, interrupter
