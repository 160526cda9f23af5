"""Signals that ask for an end: each unwinds like an error, so that workers and protection are cleaned up,
too.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import CodeType, FrameType
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
    main = threading.main_thread().ident
    threading.Thread(target=_send_again, args=(number, main), daemon=True).start()


def _send_again(number: int, main: int | None) -> None:
    """Once that thread has left ``_unraisable``, where it would be lost, too."""
    time.sleep(_AGAIN_SECONDS)
    while _unraisable.__code__ in _running(main):
        time.sleep(_AGAIN_SECONDS)
    os.kill(os.getpid(), number)


def _running(thread: int | None) -> set[CodeType]:
    """All code that this thread is in."""
    frame, found = sys._current_frames().get(thread or 0), set[CodeType]()
    while frame is not None:
        found.add(frame.f_code)
        frame = frame.f_back
    return found
