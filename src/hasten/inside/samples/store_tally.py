"""How a training used its stores, and what making them took; including dropped data sets."""

from __future__ import annotations

from collections.abc import Sequence

from .served import Served

Counted = tuple[int, int, int]
"""Samples that came from a store, that were made, that were compared."""


class StoreTally:
    """Counts the samples of a training's stores, and the time that making them took."""

    def __init__(self) -> None:
        self._of_gone: Counted = (0, 0, 0)
        self._seconds: dict[str, float] = {}  # by the store's path
        self._paid = 0.0

    def begin(self, served: Sequence[Served]) -> None:
        """Count from here on."""
        self._of_gone = (0, 0, 0)
        for one in served:
            one.before = one.counts.total()

    def gone(self, one: Served) -> None:
        """Call it when the store's data set is gone."""
        self._of_gone = _sum([self._of_gone, one.counted])
        self._seconds[one.store.path] = one.store.seconds
        self._paid += one.paid

    def counted(self, served: Sequence[Served]) -> Counted:
        return _sum([self._of_gone, *(one.counted for one in served)])

    def seconds(self, served: Sequence[Served]) -> float:
        """Time for making the stores' samples, by any process."""
        return sum({**self._seconds, **{one.store.path: one.store.seconds for one in served}}.values())

    def paid(self, served: Sequence[Served]) -> float:
        """The part paid by this process."""
        return self._paid + sum(one.paid for one in served)


def _sum(several: Sequence[Counted]) -> Counted:
    hits, made, checked = (sum(one[n] for one in several) for n in range(3))
    return hits, made, checked
