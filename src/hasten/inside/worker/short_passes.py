"""Passes over loaders that end early, so that a trial comes to an evaluation soon.

Each pass over a loader, of the training and of evaluations alike, gives the same share of its batches. So an
epoch becomes a small picture of itself, in which steps and evaluation take as large a part as in a whole one.
The order of samples is drawn as in a whole pass, and the loader says its whole length. A loader that has no
length is left as it is.
"""

from __future__ import annotations

from collections.abc import Sized
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from ..internals.loaders import NEXT_INDEX, indices_of, iterator_kind, pass_of
from ..job import shortened
from ..seams import Call, Seams

if TYPE_CHECKING:
    from ..internals.loaders import LoaderIterator


class ShortPasses:
    """``share``: of its batches that a pass gives, and one at least."""

    def __init__(self, share: float) -> None:
        self._share = share
        # the pass that is under way, since workers that stay have one iterator for all; and batches of it
        self._taken: WeakKeyDictionary[LoaderIterator, tuple[object, int]] = WeakKeyDictionary()

    def install(self, seams: Seams) -> None:
        seams.replace(iterator_kind(), NEXT_INDEX, self._around)

    def _around(self, original: Call) -> Call:
        def _next_index(iterator: LoaderIterator) -> object:
            under_way = pass_of(iterator)
            of_pass, taken = self._taken.get(iterator, (under_way, 0))
            taken = taken if of_pass is under_way else 0
            if taken >= self._most(iterator):
                raise StopIteration
            indices = original(iterator)
            self._taken[iterator] = under_way, taken + 1
            return indices

        return _next_index

    def _most(self, iterator: LoaderIterator) -> float:
        indices = indices_of(iterator)
        try:
            batches = len(indices) if isinstance(indices, Sized) else None
        except TypeError:  # of a data set without a length
            batches = None
        return float("inf") if batches is None else shortened(batches, self._share)
