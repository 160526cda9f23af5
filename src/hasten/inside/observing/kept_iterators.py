"""Loaders whose own ``__iter__`` reads each pass from one iterator of torch's that never ends, so that worker
processes stay: Ultralytics' and timm's.
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING

from ..internals.loaders import batches_in
from .observer import Observer

if TYPE_CHECKING:
    from torch.utils.data import DataLoader

    from ..internals.loaders import LoaderIterator


@dataclass(slots=True)
class _Kept:
    kind: type  # the loader's class
    of: tuple[int, int]  # which loader
    batches: int  # of a pass
    source: int = 0  # the pass, if torch's own ``__iter__`` did not begin it
    given: int = 0  # batches, in this pass
    over: bool = False  # the pass


class KeptIterators:
    """Tells the observer of their passes: one is over once something else is read, or one begins anew. That
    they never end is known of a class of loaders when one has given more batches than it has.
    """

    def __init__(self, observer: Observer) -> None:
        self._observer = observer
        self._kept: weakref.WeakKeyDictionary[LoaderIterator, _Kept] = weakref.WeakKeyDictionary()
        self._any = False
        self._latest = 0  # id of the newest iterator, once torch's own ``__iter__`` returned it
        self._endless: weakref.WeakSet[type] = weakref.WeakSet()
        self._sources = count(-1, -1)

    def made(self, iterator: LoaderIterator, loader: DataLoader[object], has_own: bool) -> None:
        """``has_own``: the loader's class has an ``__iter__`` of its own."""
        self._latest = 0
        batches = batches_in(loader) if has_own else None
        if batches:
            self._any = True
            self._kept[iterator] = _Kept(type(loader), (id(loader.dataset), batches), batches)

    def begun(self, iterator: LoaderIterator) -> None:
        """Torch's own ``__iter__`` returned it."""
        self._latest, one = id(iterator), self._kept.get(iterator)
        if one is not None:
            one.source, one.given, one.over = 0, 0, False

    def asked(self, iterator: LoaderIterator) -> None:
        """For a batch."""
        one = self._kept.get(iterator) if self._any else None
        if one is None:
            return
        begins = not (one.given or one.source) and self._latest != id(iterator)
        self._latest = 0
        if begins or (one.given == one.batches and one.kind in self._endless):
            self._begin(one)

    def source_of(self, iterator: LoaderIterator) -> int:
        """The pass that the batch which has just come belongs to."""
        one = self._kept.get(iterator) if self._any else None
        if one is None:
            return id(iterator)
        if one.given == one.batches:
            self._endless.add(one.kind)
            self._begin(one)
        one.given += 1
        return one.source or id(iterator)

    def ended(self, iterator: LoaderIterator) -> int:
        """It had no batch left. Returns which pass that ends."""
        one = self._kept.get(iterator)
        if one is None:
            return id(iterator)
        one.over = True
        return one.source or id(iterator)

    def _begin(self, one: _Kept) -> None:
        timeline = self._observer.timeline
        for other in sorted(self._kept.values(), key=lambda other: other is one):
            if other.kind in self._endless and other.given == other.batches and not other.over:
                other.over = True
                if timeline is not None:
                    timeline.loader_exhausted(other.source)
        one.source, one.given, one.over = next(self._sources), 0, False
        self._observer.epoch_began(0.0)
        if timeline is not None:
            timeline.loader_begins(one.batches)
            timeline.pass_begins(one.source, one.of)
