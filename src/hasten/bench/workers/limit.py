"""How long to wait for workers: a part of a tune that exceeds its share of the budget is stopped."""

from __future__ import annotations

import math
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace

from ...records.messages import Ended
from ...records.observation import Step
from .ending import BudgetOver

_LEAST_SECONDS = 0.01  # least wait: a socket with a timeout of zero fails instead of waiting
_EXIT_SECONDS = 10.0  # for Python's own end, once the script has ended


class Limit:
    """Without an end at first. ``clock`` is the one that times all of a tune, in seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self._until: float | None = None

    @contextmanager
    def ending(self, seconds: float) -> Iterator[None]:
        """Within the block, it ends in this many seconds, or with an enclosing block if that is earlier."""
        before = self._until
        until = self.clock() + seconds if seconds < math.inf else None
        self._until = min((end for end in (before, until) if end is not None), default=None)
        try:
            yield
        finally:
            self._until = before

    @property
    def left(self) -> float | None:
        """Seconds, below 0 when it is over; None without an end."""
        return None if self._until is None else self._until - self.clock()

    @property
    def over(self) -> bool:
        left = self.left
        return left is not None and left <= 0

    def check(self, when: str) -> None:
        """Raises BudgetOver if it is over. ``when``: "while ..."."""
        if self.over:
            raise BudgetOver(f"the budget ended {when}") from None

    def within(self, timeout: float | None) -> float | None:
        """``timeout``, or what is left, if that is less."""
        left = self.left
        if left is None:
            return timeout
        return max(_LEAST_SECONDS, left if timeout is None else min(timeout, left))


def rest_of(ended: Ended, process: subprocess.Popen[bytes], limit: Limit) -> Step | None:
    """What came after the last step of a worker that reported its end. Waits for Python's own end, which is
    part of it; except for a whole training, for which ``finish`` waits.
    """
    if ended.rest is None or ended.how != "completed" or ended.summary is not None:
        return ended.rest
    began = time.monotonic()
    with suppress(subprocess.TimeoutExpired):
        process.wait(limit.within(_EXIT_SECONDS))
    return replace(ended.rest, seconds=ended.rest.seconds + time.monotonic() - began)
