"""The stores of one training: which data sets have one, and what is proven of it.

A data set's samples are kept on the proof that ``sampling_proof`` has for samples in memory, whole or up to
their first random transform (``transform_prefix``). A store that is there already is believed only after
some of its samples, chosen at random, were made anew in a process of its own and found to be the same.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import time
from dataclasses import dataclass
from functools import partial
from types import ModuleType
from typing import Any

from ..observing.identify import length_of, takes_items_one_by_one
from ..training import Training
from .attribute_watch import AttributeWatch
from .columns import tensors_behind
from .files_read import files_open, has_changed
from .filling import MOST_CHILDREN, fill
from .lasting_digest import NoDigest, lasting_digest, versions
from .sample_cache import too_large
from .sampling_proof import answered_apart, chain, states_of
from .store_counts import Counts
from .store_files import FORMAT, Header, Store
from .store_folders import locked, make_room, open_folder, size_of
from .store_proof import division, prove, sample_of, why_not_equal, why_not_kept
from .stored_fetch import Handed, Reader
from .transform_prefix import Divided

MEMORY_SHARE = 0.8  # of what is available: a larger store would be read from the disk in each pass
_OVERHEAD_BYTES = 256  # of a sample's headers, at most, files not counted
AFRESH = 8  # samples of a store that are made anew before it is used
_BEGINNING_SECONDS = 5.0  # that another process which has just begun the same store is waited for
_KEY = "key:"  # begins an answer that is a key, and no reason


@dataclass
class Served:
    """A data set with its store, in the training process. ``stale``: why it is read no longer."""

    dataset: Any
    store: Store
    divided: Divided | None
    counts: Counts
    reader: Reader
    state: object
    remark: str = ""
    filled: bool = False  # in this process, as far as it could be
    stale: str = ""

    @property
    def parts(self) -> list[object]:
        return list(chain(self.dataset)) if self.divided is None else self.divided.parts

    def state_now(self) -> object:
        return states_of(self.dataset) if self.divided is None else self.divided.state()

    def handed(self) -> Handed:
        """To a worker process that is about to be started."""
        return Handed(self.store.path, self.store.header.prefix, self.counts)


class SampleStores:
    """``disk_share``: of the disk's free room, for all stores in the training's folder."""

    def __init__(self, training: Training, disk_share: float) -> None:
        self._training = training
        self._torch: ModuleType = training.torch
        self._folder = training.sample_folder
        self._disk_share = disk_share
        self._served: dict[int, Served] = {}
        self._why_not: dict[int, str] = {}
        self._held: list[object] = []  # the data sets behind the ids
        self._watch = AttributeWatch(training.seams, self._changed)

    @property
    def served(self) -> list[Served]:
        return list(self._served.values())

    @property
    def reasons(self) -> list[str]:
        """Why data sets that were asked for have no store."""
        return list(dict.fromkeys(self._why_not.values()))

    def known(self, dataset: object) -> Served | None:
        """The data set's store, if it was opened and is in use."""
        found = self._served.get(id(dataset))
        return found if found is not None and not (found.stale or found.counts.given_up) else None

    def opened(self, dataset: object) -> Served | None:
        """As ``known``; the first time it is proven whether there may be one, and later that it is still the
        one.
        """
        key = id(dataset)
        if key not in self._served and key not in self._why_not:
            self._held.append(dataset)
            try:
                found = self._open(dataset)
            except OSError as error:
                found = f"{self._folder} cannot hold samples: {error.strerror or error}"
            if isinstance(found, str):
                self._why_not[key] = found
            else:
                self._served[key] = found
                self._watch.watch(found.parts)
        elif (served := self.known(dataset)) is not None:
            self._look_again(served)
        return self.known(dataset)

    def fill(self, served: Served) -> None:
        """Make the samples that are missing; once in a process. Where another process does it, ranks wait for
        it, since they would wait for each other in the first step.
        """
        if served.filled or served.stale:
            return
        served.filled = True
        until = time.monotonic() + self._training.sample_seconds
        while True:
            with locked(served.store.path) as alone:
                if alone:
                    self._fill(served)
                    return
            if not self._is_rank() or time.monotonic() > until or not served.store.missing():
                return
            time.sleep(0.2)

    # ---- whether there may be one
    def _open(self, dataset: Any) -> Served | str:
        torch, name, length = self._torch, type(dataset).__name__, length_of(dataset)
        if not length:
            return f"{name} has no length"
        if not takes_items_one_by_one(dataset):
            return f"{name} makes whole batches itself (__getitems__)"
        if tensors_behind(torch, dataset, ()) is not None:
            return f"{name} holds its samples in memory already"
        told, _ = answered_apart(torch, name, lambda: (self._told_key(dataset, length), 0))
        if not told.startswith(_KEY):
            return told
        path = os.path.join(self._folder, told.removeprefix(_KEY))
        if any(served.store.path == path for served in self._served.values()):
            return f"another data set of this run cannot be told from this {name}, and has the store of both"
        store = Store.open(path)
        if store is None:
            return self._begin(dataset, length, path)
        why_not = self._why_not_believed(store, dataset, length)
        if not why_not:
            return self._serve(dataset, store)
        with locked(path) as alone:
            if not alone:
                return f"{why_not}, and another process is writing it"
            store.spoil()
        return self._begin(dataset, length, path)

    def _told_key(self, dataset: Any, length: int) -> str:
        """``_KEY`` and what differs where code, arguments, versions or the data set do; else why there is no
        such thing.
        """
        name = type(dataset).__name__
        try:
            lasting = lasting_digest(dataset)
        except NoDigest as error:
            return f"{name} holds {error}, by which it cannot be known again in a later run"
        made_of = [FORMAT, versions(), self._training.made_of(), os.getcwd(), name, length, lasting]
        return _KEY + hashlib.blake2b(json.dumps(made_of).encode(), digest_size=12).hexdigest()

    def _why_not_believed(self, store: Store, dataset: Any, length: int) -> str:
        """Compares some samples of a store with the data set's own, made in a process apart."""
        header, name = store.header, type(dataset).__name__
        if header.dataset != name or header.samples != length:
            return f"the store is of another data set than {name}"
        changed = has_changed(header.files)
        if changed:
            return f"{changed} has changed"
        missing = set(store.missing())
        there = [number for number in range(length) if number not in missing]
        if not there:
            found = prove(self._torch, dataset, length)
            return found.why_not or ("" if found.prefix == header.prefix else "its transforms are others now")
        divided = division(dataset, header.prefix)
        if isinstance(divided, str):
            return divided
        chosen = random.Random().sample(there, min(len(there), AFRESH))
        return why_not_equal(self._torch, store, dataset, divided, chosen)

    def _begin(self, dataset: Any, length: int, path: str) -> Served | str:
        """A new store, or the one that another process has begun meanwhile."""
        name = type(dataset).__name__
        found = prove(self._torch, dataset, length)
        divided = division(dataset, found.prefix)
        if found.why_not or isinstance(divided, str):
            return found.why_not or str(divided)
        reason = why_not_kept(self._torch, dataset, divided, length)
        reason = reason or self._make_room(path, name, length * (found.sample_bytes + _OVERHEAD_BYTES))
        if reason:
            return reason
        until = time.monotonic() + _BEGINNING_SECONDS
        while True:
            with locked(path) as alone:
                store = Store.open(path)
                if store is None and alone:
                    store = Store.create(
                        path, Header(name, length, found.prefix, tuple(files_open(self._folder)))
                    )
            if store is not None and store.header.prefix == found.prefix:
                return self._serve(dataset, store)
            if time.monotonic() > until:
                return "another process is writing a store for the same samples"
            time.sleep(0.1)

    def _make_room(self, path: str, name: str, needed: int) -> str:
        """Why there is none; "" where there is, for which older stores may be removed."""
        if reason := too_large(name, needed, self._training.available_bytes, MEMORY_SHARE):
            return reason
        limit = self._limit()
        if needed > limit:
            return (
                f"all samples of {name} need {needed / 2**30:.1f} GiB, more than {self._disk_share:.0%} of "
                f"what is free on the disk of {self._folder}, {limit / 2**30:.1f} GiB"
            )
        make_room(self._folder, path, limit - needed)
        return ""

    def _limit(self) -> int:
        """Bytes that all stores in the folder may have: of what is free, and of what they have already."""
        os.close(open_folder(self._folder))  # raises where it is not ours
        disk = os.statvfs(self._folder)
        stores = (os.path.join(self._folder, name) for name in os.listdir(self._folder))
        taken = sum(size_of(path) for path in stores if os.path.isdir(path))
        return int(self._disk_share * (disk.f_frsize * disk.f_bavail + taken))

    # ---- in use
    def _serve(self, dataset: Any, store: Store) -> Served | str:
        divided = division(dataset, store.header.prefix)
        if isinstance(divided, str):
            return divided
        counts = Counts()
        reader = Reader(self._torch, dataset, store, divided, counts, counts.take())
        store.used()
        state = states_of(dataset) if divided is None else divided.state()
        return Served(dataset, store, divided, counts, reader, state)

    def _look_again(self, served: Served) -> None:
        """A new pass begins: is all as it was proven to be?"""
        if served.divided is not None and not served.divided.is_intact:
            self._give_up(served, "the transforms were replaced while training")
        elif served.state_now() != served.state:
            self._give_up(served, f"{type(served.dataset).__name__} was changed while training")
        elif not served.store.is_current():
            self._give_up(served, "the store was removed")
        elif changed := has_changed(served.store.header.files):
            served.store.spoil()
            self._give_up(served, f"{changed} has changed")

    def _changed(self, part: object) -> None:
        """The script has set an attribute of it."""
        for served in self._served.values():
            if not served.stale and any(part is known for known in served.parts):
                self._give_up(served, f"{type(part).__name__} was changed while training")

    def _give_up(self, served: Served, why: str) -> None:
        served.stale = f"{why}: its samples are made anew from there on"

    def _fill(self, served: Served) -> None:
        store = served.store
        make = partial(sample_of, served.dataset, served.divided)
        children = min(MOST_CHILDREN, len(os.sched_getaffinity(0)))
        filled = fill(self._torch, store, make, children, self._training.sample_seconds, self._limit())
        if filled.fatal:
            store.drop()
            served.stale = f"the store was dropped: {filled.why}"
        elif filled.why:
            served.remark = f"not all samples are kept: {filled.why}"
        if filled.unseen:
            served.remark = "; ".join(filter(None, [served.remark, _UNSEEN]))

    def _is_rank(self) -> bool:
        """Whether other processes wait for this one in each step."""
        shared = self._torch.distributed
        return self._training.this_rank is not None or (shared.is_available() and shared.is_initialized())


_UNSEEN = "its files are read where nobody sees which, so that changes are looked for in a few samples alone"
