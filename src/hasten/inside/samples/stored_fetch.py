"""Reads samples from a store where a loader would make them, in the training process and in its workers.

Every reader compares some samples of each pass with the data set's own, chosen at random: a sample that has
changed ends the use of the store in all processes, and the store.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from contextlib import suppress
from types import ModuleType
from typing import Any

from ..living import Reference
from ..seams import Call
from .fetching import Fetcher
from .files_read import has_changed
from .rows import Rows, rows_of
from .sampling_proof import same_sample, states_of
from .store_counts import Counts
from .store_files import Store
from .stored_form import decode
from .transform_prefix import Divided
from .worker_entry import fetch_by, listed

SPOT_CHECKS = 4  # samples compared with the data set's own in every pass, by all readers together


class Reader:
    """Samples of the data set that ``refer`` references, in one process. ``slot``: where it counts."""

    def __init__(
        self,
        torch: ModuleType,
        refer: Reference,
        store: Store,
        divided: Divided | None,
        counts: Counts,
        slot: int,
    ) -> None:
        self._torch = torch
        self._refer = refer
        self._store = store
        self._divided = divided
        self._counts = counts
        self._slot = slot
        self._random = random.Random()  # not one of the script's RNG states
        self._until_check = self._random.randrange(self._between_checks)

    @property
    def _between_checks(self) -> int:
        return max(1, self._store.header.samples // SPOT_CHECKS)

    def check_first(self) -> None:
        """Compare the next sample, whichever it is: making it may depend on this process, such as on the
        number of threads.
        """
        self._until_check = 0

    @property
    def in_use(self) -> bool:
        """False once a reader has found a sample that changed: then all make their samples themselves."""
        return not self._counts.given_up

    def samples(self, indices: Sequence[int], copied: bool) -> list[object]:
        """Unless ``copied``, the caller must not write to them."""
        found, hits, made, checked = [], 0, 0, 0
        if self._divided is not None and not self._divided.is_intact:
            self._counts.give_up("the transforms were replaced: the store was given up")
        for index in indices:
            kept = self._kept(index, copied) if self.in_use else _NONE
            if kept is _NONE:
                made += 1
                found.append(self._refer()[index])
                continue
            self._until_check -= 1
            if self._until_check < 0:
                self._until_check = self._random.randrange(2 * self._between_checks)
                checked += 1
                kept = self._checked(index, kept)
            hits += 1
            found.append(kept if self._divided is None else self._divided.finish(kept))
        self._counts.add(self._slot, hits, made, checked)
        return found

    def _kept(self, index: int, copied: bool) -> object:
        """``_NONE`` if the sample is missing, or if what it was made from has changed."""
        with suppress(Exception):  # whatever is wrong with the file: the data set can make it
            kept = self._store.read(index)
            if kept is not None and not has_changed(kept.files):
                return decode(self._torch, kept.layout, kept.body, copied)
        return _NONE

    def _checked(self, index: int, kept: object) -> object:
        fresh = self._refer()[index] if self._divided is None else self._divided.make(index)
        if not same_sample(fresh, kept):
            self._counts.give_up(f"sample {index} changed: the store was given up")
            self._store.spoil()
        return fresh


_NONE = object()


class Handed:
    """What a worker process needs to read a store."""

    def __init__(self, path: str, prefix: int | None, counts: Counts) -> None:
        self.path, self.prefix, self.counts = path, prefix, counts
        self.first_slot = counts.take()

    def serve(self, dataset: Any, worker: int) -> None:
        """Replace the data set's samples with the store's. A data set that the loader's
        ``worker_init_fn`` changes makes its samples itself.
        """
        import torch

        store = Store.open(self.path)
        if store is None:
            return
        rows, before = rows_of(torch, dataset), states_of(dataset)
        divided = None if self.prefix is None else Divided(rows.base, self.prefix)
        reader = Reader(torch, lambda: rows.base, store, divided, self.counts, self.first_slot + worker)

        def make(fetcher: Fetcher, collate: Call) -> Fetcher:
            if states_of(dataset) != before:
                return fetcher
            return StoredFetch(fetcher, rows, reader, collate, torch)

        fetch_by(dataset, make)


class StoredFetch:
    """A worker's fetcher that takes samples from a store while that is in use."""

    def __init__(
        self, fetcher: Fetcher, rows: Rows, reader: Reader, collate: Call, torch: ModuleType
    ) -> None:
        self._fetcher = fetcher
        self._rows = rows
        self._reader = reader
        self._collate = collate
        self._copied = collate is not torch.utils.data.default_collate

    def fetch(self, indices: Any) -> object:
        places = listed(indices) if self._reader.in_use else None
        wanted = self._rows.places(places) if places is not None else None
        if wanted is None:
            return self._fetcher.fetch(indices)
        return self._collate(self._reader.samples(wanted, self._copied))
