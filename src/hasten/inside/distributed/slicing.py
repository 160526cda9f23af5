"""A rank's part of a global batch, and the weight of that part's loss."""

from __future__ import annotations

import weakref
import zlib
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ...records.ranks import Findings, LoaderKey
from ..internals.loaders import dataset_of, indices_of, makes_batches, reads_indices
from ..observing.batches import tensors_in
from ..samples.dataset_traits import length_of

if TYPE_CHECKING:
    from torch import Tensor

    from ..internals.loaders import LoaderIterator

_BATCHES_REMEMBERED = 8  # more than any library fetches ahead in the main process


@dataclass(frozen=True)
class Slice:
    """Samples ``start`` to ``stop`` of a global batch of ``whole``. Without ``counts`` it only gives the rank
    something to do: another rank trains on the same samples, and these have no weight.
    """

    start: int
    stop: int
    whole: int
    counts: bool = True

    @property
    def share(self) -> float:
        """Its part of the samples, 0 to 1; over all ranks they add up to 1."""
        return (self.stop - self.start) / self.whole if self.counts else 0.0


Ordered = deque[tuple[Slice, Sequence[object]]]
"""Batches that were ordered and have not arrived, each with the indices of all its samples."""


def slice_of(whole: int, rank: int, size: int, least: int = 1) -> Slice:
    """A rank's part of ``whole`` samples. Parts that count differ by at most one sample, and none has fewer
    than ``least`` if there are that many; ranks for which nothing is left take the first ``least``.
    """
    counting = min(size, max(1, whole // least))
    if rank >= counting:
        return Slice(0, min(least, whole), whole, counts=False)
    return Slice(whole * rank // counting, whole * (rank + 1) // counting, whole)


def key_of(iterator: LoaderIterator) -> LoaderKey:
    """The key of the loader that a DataLoader's iterator reads."""
    batches = indices_of(iterator)
    return LoaderKey(
        dataset=type(dataset_of(iterator)).__name__,
        samples=length_of(dataset_of(iterator)) if reads_indices(iterator) else None,
        batch_size=getattr(batches, "batch_size", None),
        sampler=type(getattr(batches, "sampler", batches)).__name__,
    )


class Slicer:
    """Cuts the training loader's batches, and knows the slice of the current pass. If the findings name no
    loader, any is cut that can be.

    ``fingerprint`` is of all samples ordered so far; it must be the same in all ranks. ``in_step``: a slice
    has come, and there was no backward pass since.
    """

    def __init__(self, rank: int, size: int, findings: Findings) -> None:
        self._rank, self._size, self._least = rank, size, findings.least
        self.trains_on(findings.loader, findings.in_eval)
        self._decided: weakref.WeakKeyDictionary[LoaderIterator, bool] = weakref.WeakKeyDictionary()
        self._ordered: weakref.WeakKeyDictionary[LoaderIterator, Ordered] = weakref.WeakKeyDictionary()
        self._came: deque[tuple[Slice, list[weakref.ref[Tensor]]]] = deque(maxlen=_BATCHES_REMEMBERED)
        self._evaluating: weakref.WeakSet[LoaderIterator] = weakref.WeakSet()
        self._whole: deque[list[weakref.ref[Tensor]]] = deque(maxlen=_BATCHES_REMEMBERED)
        self._sources: deque[Callable[[], object]] = deque(maxlen=_BATCHES_REMEMBERED)  # were trained on
        self._source: object = None  # of the latest batch: what gives its loader's indices
        self.current: Slice | None = None  # None: no batch was cut yet
        self.indices: Sequence[object] = ()  # of all samples of the latest batch
        self.fingerprint = 0
        self.batches = 0
        self.in_step = False

    def take_role(self, rank: int, size: int) -> str:
        """From the next batch on it cuts as that rank of so many. Returns why not, or ""."""
        if (rank, size) == (self._rank, self._size):
            return ""
        fetched = any(self._ordered.values()) or (self._came and self._came[-1][0] is not self.current)
        self._rank, self._size = rank, size
        return "its loader, or a library, fetches batches ahead" if fetched else ""

    def trains_on(self, loader: LoaderKey | None, in_eval: bool) -> None:
        """What a rehearsal found."""
        self._loader, self._in_eval = loader, in_eval

    # ---- a pass over the loader
    def begins(self, iterator: LoaderIterator) -> None:
        """A new epoch of the same iterator, which may now be read for a different purpose."""
        self._decided.pop(iterator, None)
        self._ordered.pop(iterator, None)
        self._evaluating.discard(iterator)

    def cuts(
        self, iterator: LoaderIterator, training: bool, in_eval: Callable[[], bool] = lambda: False
    ) -> bool:
        """Whether its batches are cut: it reads the training loader, and gradients were on when it began.
        ``in_eval``: whether all modules are in eval mode. Then it is an evaluation, unless they are trained
        so, or a script that has trained on this loader goes on without having changed the mode yet.
        """
        found = self._decided.get(iterator)
        if found is None:
            found = training and reads_indices(iterator) and makes_batches(iterator)
            found = found and (self._loader is None or reads_the_same(self._loader, key_of(iterator)))
            if found and not self._in_eval and in_eval():
                trained_before = any(source() is indices_of(iterator) for source in self._sources)
                found = trained_before or self._loader is None
                if not trained_before:
                    self._evaluating.add(iterator)
            self._decided[iterator] = found
        return found

    def seems_to_evaluate(self, iterator: LoaderIterator) -> bool:
        """Whether all modules were in eval mode when this pass began, and they are not trained so."""
        return iterator in self._evaluating

    def is_cut(self, iterator: LoaderIterator) -> bool:
        """Like ``cuts``, but False if that was not decided yet."""
        return bool(self._decided.get(iterator))

    def cut(self, iterator: LoaderIterator, indices: object) -> object:
        """This rank's part of a batch's indices."""
        if not isinstance(indices, (list, tuple)) or not indices:
            return indices
        mine = slice_of(len(indices), self._rank, self._size, self._least)
        self._ordered.setdefault(iterator, deque()).append((mine, indices))
        self.fingerprint = zlib.crc32(repr(indices).encode(), self.fingerprint)
        self.batches += 1
        return indices[mine.start : mine.stop]

    def batch_came(self, batch: object, iterator: LoaderIterator) -> None:
        """A batch has come: note which slice of the global batch it is."""
        ordered = self._ordered.get(iterator)
        if ordered:
            mine, self.indices = ordered.popleft()
            self._came.append((mine, seen_in(batch)))
            self._whole.clear()
            self._source, self.in_step = indices_of(iterator), True
        elif self.seems_to_evaluate(iterator):
            self._whole.append(seen_in(batch))

    def backward_ended(self) -> None:
        """The script trained on the latest batch."""
        self.in_step = False
        if self._source is not None and all(one() is not self._source for one in self._sources):
            self._sources.append(_reference(self._source))

    def put_in_place(self, part: Slice, batch: object) -> None:
        """The script gets ``batch``, which is ``part``, after the last one."""
        self._came[-1] = (part, seen_in(batch))

    @property
    def latest(self) -> Slice | None:
        """The slice of the latest batch."""
        return self._came[-1][0] if self._came else None

    # ---- the model's passes
    def forward_begins(self, inputs: object) -> None:
        """The model is about to see ``inputs``. They need not be of the last batch, since libraries fetch a
        batch ahead: take the batch that shares memory with them, else one of the same length. If that batch
        was left whole, there is no slice.
        """
        if not self._came:
            return
        places = {memory_of(tensor) for tensor in tensors_in(inputs) if tensor.numel()}
        for mine, seen in reversed(self._came):
            if _is_in(places, seen):
                self.current = mine
                return
        if any(_is_in(places, seen) for seen in self._whole):
            self.current = None
            return
        lengths = {int(tensor.shape[0]) for tensor in tensors_in(inputs) if tensor.dim()}
        fitting = [mine for mine, _ in self._came if mine.stop - mine.start in lengths]
        latest = None if self._whole else self._came[-1][0]
        self.current = fitting[-1] if fitting else latest

    def weight(self, loss: str) -> float:
        """The weight of this rank's gradient in the sum over ranks; ``loss`` is a "mean" or a "sum"."""
        if self.current is None:
            return 1.0 / self._size  # no batch was cut: every rank computes the same
        if loss == "sum":
            return 1.0 if self.current.counts else 0.0
        return self.current.share


def reads_the_same(loader: LoaderKey, other: LoaderKey) -> bool:
    """A script may create its loader again, with a different kind of sampler for later epochs."""
    return replace(other, sampler=loader.sampler) == loader


def seen_in(batch: object) -> list[weakref.ref[Tensor]]:
    """Some tensors of a batch, by whose memory it is recognised."""
    return [weakref.ref(tensor) for tensor in tensors_in(batch)[:8]]


def _is_in(places: set[int], seen: list[weakref.ref[Tensor]]) -> bool:
    return any(memory_of(tensor) in places for ref in seen if (tensor := ref()) is not None)


def _reference(source: object) -> Callable[[], object]:
    try:
        return weakref.ref(source)
    except TypeError:  # a list of batches
        return lambda: source


def memory_of(tensor: Tensor) -> int:
    return int(tensor.untyped_storage().data_ptr())
