"""Which samples a pass will read next: an evaluation reads a data set in order.

Once it has come some way, several processes can make what follows at once. How much that is grows with what
was read: a script may stop after a few batches.
"""

from __future__ import annotations

from collections.abc import Sequence

_FROM = 256  # samples read in order
_TIMES = 4  # as many as were read so far


class InOrder:
    """``off``: it is not to be done any more."""

    def __init__(self) -> None:
        self.off = False
        self._read = 0  # samples in order, from the first on
        self._made = 0

    def before(self, indices: Sequence[int], length: int) -> Sequence[int]:
        """What to make before these samples are given, which are among them; nothing most of the time."""
        begin = self._read
        first, last = indices[0], indices[-1]
        if (first and first != begin) or list(indices) != list(range(first, last + 1)):
            self._read = self._made = 0
            return ()
        if not first:
            begin = self._made = 0
        self._read = last + 1
        if self.off or begin < _FROM or begin < self._made:
            return ()
        self._made = min(length, (1 + _TIMES) * begin)
        return range(begin, self._made)
