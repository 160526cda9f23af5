"""How many batches a step takes, and an evaluation."""

from __future__ import annotations

from collections import deque
from itertools import islice

from .cycles import cycle_length

_KEPT = 1000  # of the latest steps


class BatchCounts:
    """Gets every batch and its ``source``, the pass over a loader that it came from.

    Loaders that are read in parallel each give a step their own batch: what counts is how many batches of one
    of them a step takes.
    """

    def __init__(self) -> None:
        self.samples = 0  # since a loader began, or an evaluation
        self._since: dict[int, int] = {}  # batches, like ``samples``
        self._step: dict[int, int] = {}  # of the step
        self._taken: deque[int] = deque(maxlen=_KEPT)  # by each step

    def came(self, samples: int, source: int) -> None:
        """A batch of so many ``samples`` has come from ``source``."""
        self.samples += samples
        self._since[source] = self._since.get(source, 0) + 1
        self._step[source] = self._step.get(source, 0) + 1

    def loader_begins(self, trained: bool) -> None:
        """``trained``: whether any step was taken."""
        self.forget()
        if not trained:
            self._step.clear()

    @property
    def any_came(self) -> bool:
        return bool(self._since)

    def forget(self) -> None:
        """What came so far does not belong to an evaluation."""
        self.samples = 0
        self._since.clear()

    def evaluated(self) -> None:
        """What came belongs to an evaluation, not to a step."""
        for source, batches in self._since.items():
            self._step[source] = self._step.get(source, 0) - batches
        self.forget()

    def step_ended(self) -> None:
        self._taken.append(max(0, *self._step.values()) if self._step else 0)
        self._step.clear()

    def steps_of(self, batches: int | None) -> int | None:
        """Steps of a pass over ``batches``. Not known where one of several steps took all that came: nobody
        can tell yet how many steps a batch is used for.

        Only whole blocks of steps count, from one that took batches to the next: the last may go on, and the
        first step may have taken more, by reading ahead.
        """
        taking = [at for at, taken in enumerate(self._taken) if taken]
        if batches is None or not taking:
            return None
        if len(taking) == 1:
            return max(1, round(batches / self._taken[0])) if len(self._taken) == 1 else None
        first, last = taking[0] + 1, taking[-1] + 1
        period = cycle_length([(taken, 1, 1) for taken in self._taken])
        steps = (last - first) // period * period or last - first
        return max(1, round(batches * steps / sum(islice(self._taken, last - steps, last))))
