"""How long a worker's process takes to the end of its first step."""

from __future__ import annotations

import time


class StartTimes:
    """``to_first_step`` and, ``without_set_up`` of techniques: seconds until it ended, 0 before."""

    def __init__(self, began: float, own_seconds: float = 0.0) -> None:
        """``began``: by time.time(). ``own_seconds``: what importing hasten took, as far as a run under the
        plan needs it, before the script began.
        """
        self._began = began
        self.own_seconds = own_seconds
        self.to_first_step = self.without_set_up = 0.0

    def first_step_ended(self, waited: float, set_up: float, spared: float) -> None:
        """``waited``: seconds for its turn. ``spared``: of the set-up, what this process did not take."""
        self.to_first_step = time.time() - self._began - waited
        self.without_set_up = max(0.0, self.to_first_step + spared - set_up)
