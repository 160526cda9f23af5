"""SIGTERM asks for a checkpoint at the next step's end; then it does what it does to the script."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import Any

from ..seams import Call, Seams


class Stopping:
    """``asked`` once the signal came. A second one ends the process at once."""

    def __init__(self, waits: Callable[[], bool]) -> None:
        self.asked = False
        self._waits = waits
        self._scripts: Any = signal.SIG_DFL
        self._home = os.getpid()

    def install(self, seams: Seams) -> None:
        self._scripts = signal.getsignal(signal.SIGTERM)
        if self._scripts is signal.SIG_IGN:
            return
        self._set = signal.signal
        signal.signal(signal.SIGTERM, self._came)

        def around(original: Call) -> Call:
            def set_handler(number: Any, handler: Any) -> Any:
                if number != signal.SIGTERM or os.getpid() != self._home:
                    return original(number, handler)
                before, self._scripts = self._scripts, handler
                return before

            return set_handler

        seams.replace(signal, "signal", around)

    def _came(self, number: int, frame: Any) -> None:
        if self.asked or os.getpid() != self._home or not self._waits():
            self.go(frame)
        self.asked = True

    def go(self, frame: Any = None) -> None:
        """What the signal does without us."""
        if callable(self._scripts):
            self.asked = False
            self._scripts(signal.SIGTERM, frame)
        elif self._scripts is signal.SIG_DFL:
            self._set(signal.SIGTERM, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGTERM)
