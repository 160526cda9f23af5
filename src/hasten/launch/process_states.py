"""Whether a rank's process is stopped, and where it stands.

Source: proc(5), /proc/PID/stat, /proc/PID/status and /proc/PID/task/TID/children; tgkill(2).
"""

from __future__ import annotations

import ctypes
import os
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from ..inside.package import INSIDE
from ..inside.process.stacks import HEADING, SIGNAL
from .tail import Tail

_ANSWER_SECONDS = 2.0  # in which it comes to that, on a busy machine
_WRITING_SECONDS = 0.05  # in which a stack is written
_MOST_LINES = 100  # of a stack
_DEEP = 3  # below the process that was started: a rank in a process namespace of its own is two


def is_stopped(process: int, below: bool = True) -> bool:
    """It, or one ``below`` it: a sandboxed rank has processes above its own. By proc(5), the letter after the
    name.
    """
    return any(_letter(one) in ("T", "t") for one in (_from(process) if below else [process]))


def ask_where_it_stands(process: int) -> bool:
    """Have the rank that runs there, or below it, write its stack to its standard error; whether it has. One
    that was stopped goes on for that, so end it then.
    """
    answering = _answering(process)
    if not answering:
        return False
    with suppress(OSError, AttributeError):  # an older C library has no tgkill
        # to its main thread: to a process that was stopped, any thread might answer
        ctypes.CDLL(None).tgkill(answering, answering, SIGNAL)
        os.kill(answering, signal.SIGCONT)
        until = time.monotonic() + _ANSWER_SECONDS
        while _waits_for(answering, "SigPnd") and time.monotonic() < until:
            time.sleep(_WRITING_SECONDS / 10)
        time.sleep(_WRITING_SECONDS)
        return True
    return False


def stack_in(tail: Tail) -> list[str]:
    """The last stack in a rank's output, once it is there, without what led to the script."""
    until = time.monotonic() + _ANSWER_SECONDS
    while True:
        lines = tail.lines(_MOST_LINES)
        begins = [number for number, line in enumerate(lines) if HEADING in line]
        if begins or time.monotonic() > until:
            break
        time.sleep(_WRITING_SECONDS)
    if not begins:
        return ["    it does not tell"]
    return [line for line in lines[begins[-1] :] if INSIDE not in line]


def children_of(process: int) -> list[int]:
    """The processes that its main thread has started."""
    with suppress(OSError):
        return [int(one) for one in Path(f"/proc/{process}/task/{process}/children").read_text().split()]
    return []


def _answering(process: int) -> int:
    """The first that has a handler for our signal; 0 if none does, whom it would end."""
    return next((one for one in _from(process) if _waits_for(one, "SigCgt")), 0)


def _from(process: int, depth: int = 0) -> Iterator[int]:
    """The process, and those that it and they have started, so far down as a rank may be."""
    yield process
    for one in children_of(process) if depth < _DEEP else []:
        yield from _from(one, depth + 1)


def _waits_for(process: int, what: str) -> bool:
    """Our signal is in that set of its main thread's: with a handler, "SigCgt", or to come, "SigPnd"."""
    with suppress(OSError, ValueError):
        for line in Path(f"/proc/{process}/task/{process}/status").read_text().splitlines():
            name, _, value = line.partition(":")
            if name == what:
                return bool(SIGNAL and int(value, 16) >> (SIGNAL - 1) & 1)
    return False


def _letter(process: int) -> str:
    with suppress(OSError, IndexError):
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    return ""
