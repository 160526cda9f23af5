"""The standard streams: there may be none, or nobody who takes what is written."""

from __future__ import annotations

import io
import os
import sys
from contextlib import suppress
from typing import TextIO

from ..report.console import Outlet


def prepare() -> None:
    """Where a standard stream is closed, keep its number: a file of ours that got it would be written to.

    What is put there takes nothing and is not inherited: a script that takes our place finds it closed.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDONLY)  # the lowest number that is free: this one
    sys.stdout = sys.stdout or _writes_nowhere(1)
    sys.stderr = sys.stderr or _writes_nowhere(2)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # rather a name that is spelled out than an error


def finish() -> None:
    """Write out what is left. Raises OutputLost or BrokenPipeError where standard output does not take it."""
    Outlet(sys.stdout).flush()


def let_go() -> None:
    """What was not taken yet goes nowhere, so that Python has nothing to complain of when it ends."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            _throw_away(stream)


def _writes_nowhere(number: int) -> TextIO:
    return open(number, "w", encoding="utf-8", errors="backslashreplace", closefd=False)


def _throw_away(stream: TextIO) -> None:
    """What is written, and was not taken yet, goes nowhere from now on."""
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
