"""Signals that ask for an end: each unwinds like an error, so that workers and protection are cleaned up,
too.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

_AGAIN_SECONDS = 0.02
_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


def heed() -> None:
    """From now on SIGTERM, SIGHUP and SIGQUIT raise Ended, a SystemExit, as SIGINT raises KeyboardInterrupt.

    An ignored one (SIGHUP under nohup) stays ignored.
    """
    for number in _ENDING[1:]:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, _end)
    sys.unraisablehook = _unraisable


class Ended(SystemExit):
    """A signal asked for an end; its code is the shell's for that signal."""

    @property
    def signal_name(self) -> str:
        return signal.Signals(int(self.code or 0) - 128).name


@contextmanager
def not_again() -> Iterator[None]:
    """For the last messages after everything is cleaned up: further signals are ignored."""
    before = {number: signal.signal(number, signal.SIG_IGN) for number in _ENDING}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _end(number: int, frame: FrameType | None) -> NoReturn:
    raise Ended(128 + number)


def _unraisable(unraisable: sys.UnraisableHookArgs) -> None:
    """A signal that arrives inside a finalizer or a weak reference's callback is lost: Python only prints
    what is raised there. It is sent again after that callback.
    """
    if issubclass(unraisable.exc_type, KeyboardInterrupt):
        number: int = signal.SIGINT
    elif isinstance(unraisable.exc_value, SystemExit) and isinstance(unraisable.exc_value.code, int):
        number = unraisable.exc_value.code - 128
    else:
        sys.__unraisablehook__(unraisable)
        return
    again = threading.Timer(_AGAIN_SECONDS, os.kill, (os.getpid(), number))
    again.daemon = True
    again.start()
