"""A worker waits for its turn to compute, while another starts."""

from __future__ import annotations

import os
import time

from ..observing.hooks import Hooks

_EACH = 0.005  # seconds between two looks
_LONGEST = 120.0  # seconds: the other may wait for something that we hold


class Turn:
    """``file`` exists until it is our turn; "" for at once. ``waited``: seconds so far."""

    def __init__(self, file: str) -> None:
        self._file = file
        self.waited = 0.0

    def watch(self, hooks: Hooks) -> None:
        """Wait when the first optimizer is made: what comes then computes."""
        if self._file:
            came = hooks.on_optimizer

            def on_optimizer() -> None:
                self._wait()
                came()

            hooks.on_optimizer = on_optimizer

    def _wait(self) -> None:
        began = time.monotonic()
        while self._file and os.path.exists(self._file) and time.monotonic() - began < _LONGEST:
            time.sleep(_EACH)
        self._file = ""
        self.waited += time.monotonic() - began
