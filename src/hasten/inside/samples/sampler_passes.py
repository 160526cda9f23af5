"""Passes over a loader's sampler that ask it for indices when the script's own options would."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from itertools import islice


class Asked:
    """A pass over a sampler that notes what was asked for and has not come yet. An error of the sampler's is
    raised in its turn, after the batches before it.
    """

    def __init__(self, indices: Iterator[object], ahead: int) -> None:
        self.ahead = ahead  # batches that each worker makes ahead
        self.here = False  # batches are made in this process
        self._indices = indices
        self._waiting: deque[object] = deque()
        self._error: Exception | None = None

    def __iter__(self) -> Asked:
        return self

    def __next__(self) -> object:
        if self._error is not None:
            raise StopIteration
        try:
            one = next(self._indices)
        except StopIteration:
            raise
        except Exception as error:
            self._error = error
            raise StopIteration from error
        self._waiting.append(one)
        return one

    def oldest(self) -> object:
        """What was asked for first, or is asked for now."""
        if not self._waiting:
            self.end()
            return next(self._indices)
        return self._waiting.popleft()

    def end(self) -> None:
        """All batches have come: raises the sampler's error, if any."""
        error, self._error = self._error, None
        if error is not None:
            raise error


class AskedAhead:
    """As by worker processes that make ``count`` batches ahead, where there are none."""

    def __init__(self, indices: Iterator[object], count: int) -> None:
        self._indices = indices
        self._waiting = deque(islice(indices, count))

    def __iter__(self) -> AskedAhead:
        return self

    def __next__(self) -> object:
        if not self._waiting:
            raise StopIteration
        one = self._waiting.popleft()
        self._waiting.extend(islice(self._indices, 1))
        return one
