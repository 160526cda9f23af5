"""Signals that end a process at once, like SIGTERM: while files are pending, they end it when these are
written. Scripts that read or set a signal's handler find what they would find without us.

Sources: https://docs.python.org/3/library/signal.html, signal(7)
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from typing import Any

from ...seams import Call, Seams

_DEADLY = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))


class DeadlySignals:
    """``wait``: until all is written."""

    def __init__(self, wait: Callable[[], object]) -> None:
        self._wait = wait
        self._held: set[int] = set()
        self._set: Any = signal.signal
        self._get: Any = signal.getsignal

    def watch(self, seams: Seams) -> None:
        """Watch these signals until the seams are undone."""
        self._set, self._get = signal.signal, signal.getsignal
        seams.replace(signal, "signal", self._around_signal)
        seams.replace(signal, "getsignal", self._around_getsignal)
        seams.on_undo(self.release)
        os.register_at_fork(after_in_child=self.release)

    def hold(self) -> bool:
        """Returns whether, from now on, none ends the process before all is written. Only the main thread can
        do that.
        """
        loose = [number for number in _DEADLY if self._get(number) == signal.SIG_DFL]
        if loose and threading.current_thread() is not threading.main_thread():
            return False
        for number in loose:
            self._set(number, self._came)
            self._held.add(int(number))
        return True

    def release(self) -> None:
        """Call it in the main thread once all is written, and in forked children."""
        if threading.current_thread() is not threading.main_thread():
            return
        held, self._held = self._held, set()
        for number in held:
            if self._get(number) == self._came:
                self._set(number, signal.SIG_DFL)

    def _came(self, number: int, frame: object) -> None:
        self._wait()
        self.release()
        os.kill(os.getpid(), number)

    # ---- the script's view
    def _around_signal(self, original: Call) -> Call:
        def set_signal(number: int, handler: object) -> object:
            return self._plain(original(number, handler))

        return set_signal

    def _around_getsignal(self, original: Call) -> Call:
        def get_signal(number: int) -> object:
            return self._plain(original(number))

        return get_signal

    def _plain(self, handler: object) -> object:
        return signal.SIG_DFL if handler == self._came else handler
