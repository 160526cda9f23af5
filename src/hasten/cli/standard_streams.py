"""The standard streams: they may be missing, or their reader gone."""

from __future__ import annotations

import io
import os
import sys
from contextlib import suppress
from typing import TextIO

from ..report.console import Outlet


def prepare() -> None:
    """If a standard stream is closed, occupy its number: otherwise one of our files could get it.

    The substitute discards everything and is not inherited: a script that replaces us finds it closed.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDONLY)  # uses the lowest free number: this one
    sys.stdout = sys.stdout or _writes_nowhere(1)
    sys.stderr = sys.stderr or _writes_nowhere(2)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # escape a name rather than fail


def finish() -> None:
    """Write what is left. Raises OutputLost or BrokenPipeError if standard output does not take it."""
    Outlet(sys.stdout).flush()


def let_go() -> None:
    """Discard what was not taken yet, so that Python does not complain when it ends."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            _throw_away(stream)


def _writes_nowhere(number: int) -> TextIO:
    return open(number, "w", encoding="utf-8", errors="backslashreplace", closefd=False)


def _throw_away(stream: TextIO) -> None:
    """Discard what was not taken yet, and everything written from now on."""
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
