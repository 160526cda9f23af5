"""What each rank takes for a step itself, without waiting for the others: who makes them wait?"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from statistics import median

from ..job import Hosts

_MOST_RANKS = 256  # with more, the message of a backward pass would become too long
_KEPT = 64  # steps


class OwnTime:
    """``told`` and ``heard`` are called before and after the message of each backward pass, which all ranks
    wait for.
    """

    def __init__(
        self,
        rank: int,
        size: int,
        hosts: Hosts | None = None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._rank, self._size, self._hosts, self._clock = rank, size, hosts, clock
        self._since: float | None = None  # the message of the pass before
        self._step = -1
        self._now: list[float] = []  # seconds of the step at hand, by rank
        self._kept: deque[list[float]] = deque(maxlen=_KEPT)

    def told(self) -> list[float]:
        """Seconds since the last message, in this rank's place; to be summed over the ranks."""
        if self._size > _MOST_RANKS:
            return []
        row = [0.0] * self._size
        if self._since is not None:
            row[self._rank] = self._clock() - self._since
        return row

    def heard(self, seconds: Sequence[float], step: int) -> None:
        """``seconds``: by rank; ``step``: how many have ended."""
        if step != self._step:
            if self._now:
                self._kept.append(self._now)
            self._step, self._now = step, [0.0] * len(seconds)
        self._now = [before + more for before, more in zip(self._now, seconds, strict=True)]
        self._since = self._clock()

    def begin(self) -> None:
        """Forget what was kept: from here on it is counted anew."""
        self._kept.clear()
        self._step, self._now = -1, []

    def usual(self) -> Mapping[str, float]:
        """The median seconds of a step, by the name of the rank; nothing if too few ended."""
        if len(self._kept) < 3:
            return {}
        columns = zip(*self._kept, strict=True)
        return {rank_words(rank, self._hosts): median(column) for rank, column in enumerate(columns)}


def rank_words(rank: int, hosts: Hosts | None) -> str:
    """Which one, and on which host if there are several."""
    return f"rank {rank} on host {hosts.names[hosts.of(rank)]}" if hosts is not None else f"rank {rank}"
