"""The stores of one training: which data sets have one, and what is proven about it.

A data set's samples are kept on the proof that ``sampling_proof`` has for samples in memory, whole or up to
their first random transform (``transform_prefix``). An existing store is trusted only after some of its
samples, chosen at random, were made again in a separate process and found to be the same.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Collection
from contextlib import suppress
from functools import partial
from types import ModuleType
from typing import Any

from ..living import Living, reference
from ..training import Training
from .attribute_watch import AttributeWatch
from .columns import tensors_behind
from .dataset_traits import length_of, takes_items_one_by_one
from .files_read import files_open, has_changed
from .filling import MOST_CHILDREN, Making, fill
from .forked_filling import shares_what_it_reads
from .rows import Rows, rows_of
from .sample_room import too_large
from .served import Served
from .store_counts import Counts
from .store_files import Header, Store
from .store_folders import locked, open_folder, size_of
from .store_key import Key, key_of
from .store_proof import division, prove, sample_of, why_not_equal, why_not_kept
from .store_room import found_again, hold_for_this_run, is_for_one_run, is_left_over, make_room, thin_out
from .store_tally import StoreTally
from .stored_fetch import Reader

MEMORY_SHARE = 0.8  # of what is available: a larger store would be read from the disk in each pass
_OVERHEAD_BYTES = 256  # of a sample's headers, at most, files not counted
AFRESH = 8  # samples of a store that are made again before it is used
_BEGINNING_SECONDS = 5.0  # to wait for another process that has just started the same store


class SampleStores:
    """``disk_share``: of the disk's free room, for all stores in the training's folder."""

    def __init__(self, training: Training, disk_share: float) -> None:
        self._training = training
        self._torch: ModuleType = training.torch
        self._folder = training.sample_folder
        self._disk_share = disk_share
        self.tally = StoreTally()
        self._served: Living[Served] = Living(self._gone)
        self._why_not: Living[str] = Living()
        self._watch = AttributeWatch(training.seams, self._changed)

    @property
    def served(self) -> list[Served]:
        return self._served.values()

    def _gone(self, served: Served) -> None:
        """The script has dropped its data set: another one with the same samples may use the store."""
        with suppress(OSError, ValueError):
            self.tally.gone(served)
        served.store.close()
        served.counts.close()

    @property
    def reasons(self) -> list[str]:
        """Why requested data sets have no store."""
        return list(dict.fromkeys(self._why_not.values()))

    def known(self, dataset: object) -> Served | None:
        """The store of the data set's samples, if it was opened and is in use."""
        found = self._served.get(rows_of(self._torch, dataset).base)
        return found if found is not None and not (found.stale or found.counts.given_up) else None

    def opened(self, dataset: object) -> Served | None:
        """Like ``known``; the first time it checks whether there may be one, and later that it is still the
        same one.
        """
        rows = rows_of(self._torch, dataset)
        if rows.base not in self._served and rows.base not in self._why_not:
            try:
                found = self._open(dataset, rows)
            except OSError as error:
                found = f"{self._folder} cannot hold samples: {error.strerror or error}"
            if isinstance(found, str):
                self._why_not.put(rows.base, found)
            else:
                self._served.put(rows.base, found)
                self._watch.watch(found.parts)
                found.look()
        elif (served := self.known(dataset)) is not None:
            self._look_again(served)
        return self.known(dataset)

    def fill(self, served: Served, dataset: object) -> None:
        """Make the missing samples of ``dataset``; once per process. If another process does it, ranks wait
        for it, because they would wait for each other in the first step anyway.
        """
        wanted = set(self._places(dataset) or ()) - served.asked
        if not wanted or served.stale:
            return
        served.asked |= wanted
        until = time.monotonic() + self._training.sample_seconds
        while True:
            with locked(served.store.path) as alone:
                if alone:
                    self._fill(served, wanted)
                    return
            if not self._is_rank() or time.monotonic() > until:
                return
            if wanted.isdisjoint(served.store.missing()):
                return
            time.sleep(0.2)

    def _places(self, dataset: Any) -> list[int] | None:
        return rows_of(self._torch, dataset).places(range(length_of(dataset) or 0))

    # ---- whether a store is allowed
    def _open(self, dataset: Any, rows: Rows) -> Served | str:
        torch, base, name = self._torch, rows.base, type(rows.base).__name__
        length, places = length_of(base), self._places(dataset)
        if not length or not places:
            return f"{name} has no length"
        if not takes_items_one_by_one(dataset):
            return f"{name} makes whole batches itself (__getitems__)"
        if tensors_behind(torch, dataset, ()) is not None:
            return f"{name} holds its samples in memory already"
        key = key_of(torch, base, length, self._training.made_of())
        if isinstance(key, str):
            return key
        path = os.path.join(self._folder, key.name)
        if path in self._in_use:
            return f"another data set of this run cannot be told from this {name}, and uses the same store"
        store = Store.open(path)
        if store is None:
            return self._begun(dataset, base, key, places)
        why_not = self._why_not_believed(store, dataset, base, places)
        if not why_not:
            found_again(path)
            return self._serve(base, store)
        with locked(path) as alone:
            if alone:
                store.spoil()
            store.close()
            if not alone:
                return f"{why_not}, and another process is writing it"
        return self._begun(dataset, base, key, places)

    @property
    def _in_use(self) -> set[str]:
        return {served.store.path for served in self.served}

    def _why_not_believed(self, store: Store, dataset: Any, base: Any, places: list[int]) -> str:
        """Compares some samples of a store with the data set's own, made in a separate process."""
        header, name = store.header, type(base).__name__
        if header.dataset != name or header.samples != length_of(base):
            return f"the store belongs to another data set than {name}"
        if self._training.samples_for_later and is_left_over(store.path):
            return "the store was made for one earlier run only"
        changed = has_changed(header.files)
        if changed:
            return f"{changed} has changed"
        there = sorted(set(places).difference(store.missing()))
        if not there:
            found = prove(self._torch, dataset, len(places))
            return found.why_not or ("" if found.prefix == header.prefix else "its transforms have changed")
        divided = division(base, header.prefix)
        if isinstance(divided, str):
            return divided
        chosen = random.Random().sample(there, min(len(there), AFRESH))
        return why_not_equal(self._torch, store, base, divided, chosen)

    def _begun(self, dataset: Any, base: Any, key: Key, places: list[int]) -> Served | str:
        """A new store, with the time that proving it allowed has taken."""
        began = time.monotonic()
        found = self._begin(dataset, base, key, places)
        if isinstance(found, Served):
            found.store.took(time.monotonic() - began)
        return found

    def _begin(self, dataset: Any, base: Any, key: Key, places: list[int]) -> Served | str:
        """A new store, or the one that another process has started meanwhile."""
        name, path = type(base).__name__, os.path.join(self._folder, key.name)
        found = prove(self._torch, dataset, len(places))
        divided = division(base, found.prefix)
        if found.why_not or isinstance(divided, str):
            return found.why_not or str(divided)
        reason = why_not_kept(self._torch, base, divided, places)
        reason = reason or self._make_room(path, name, len(places) * (found.sample_bytes + _OVERHEAD_BYTES))
        if reason:
            return reason
        thin_out(self._folder, key.family, {path, *self._in_use})
        opened = tuple(files_open(self._folder))
        header = Header(name, length_of(base) or 0, found.prefix, opened, key.family)
        until = time.monotonic() + _BEGINNING_SECONDS
        while True:
            with locked(path) as alone:
                store = Store.open(path)
                if store is None and alone:
                    store = Store.create(path, header)
            if store is not None and store.header.prefix == found.prefix:
                return self._serve(base, store)
            if time.monotonic() > until:
                return "another process is writing a store for the same samples"
            time.sleep(0.1)

    def _make_room(self, path: str, name: str, needed: int) -> str:
        """Why there is no room; "" if there is, for which older stores may be removed."""
        if reason := too_large(name, needed, self._training.available_bytes, MEMORY_SHARE):
            return reason
        limit = self._limit()
        if needed > limit:
            return (
                f"all samples of {name} need {needed / 2**30:.1f} GiB, more than {self._disk_share:.0%} of "
                f"what is free on the disk of {self._folder}, {limit / 2**30:.1f} GiB"
            )
        if make_room(self._folder, path, self._in_use, limit - needed):
            return ""
        return f"other data sets of this run have the room that all samples of {name} need"

    def _limit(self) -> int:
        """Bytes that all stores in the folder may have: of what is free, and of what they have already."""
        os.close(open_folder(self._folder))  # raises if it is not ours
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
        refer = reference(dataset)
        reader = Reader(self._torch, refer, store, divided, counts, counts.take())
        reader.check_first()
        store.used()
        if is_for_one_run(store.path):
            hold_for_this_run(store.path)
        return Served(refer, store, divided, counts, reader)

    def _look_again(self, served: Served) -> None:
        """A new pass begins: check that everything is as proven."""
        if served.divided is not None and not served.divided.is_intact:
            self._give_up(served, "the transforms were replaced while training")
        elif changed := served.difference():
            self._give_up(served, f"{changed} was changed while training")
        elif not served.store.is_current():
            self._give_up(served, "the store was removed")
        elif changed := has_changed(served.store.header.files):
            served.store.spoil()
            self._give_up(served, f"{changed} has changed")

    def _changed(self, part: object) -> None:
        """The script has set an attribute of it."""
        for served in self.served:
            if not served.stale and any(part is known for known in served.parts):
                self._give_up(served, f"{type(part).__name__} was changed while training")

    def _give_up(self, served: Served, why: str) -> None:
        served.stale = f"{why}: its samples are made anew from then on"

    def _fill(self, served: Served, wanted: Collection[int]) -> None:
        store, seconds = served.store, self._training.sample_seconds
        make = partial(sample_of, served.dataset, served.divided)
        making = Making(self._torch, served.dataset, make)
        children = 1 if shares_what_it_reads() else min(MOST_CHILDREN, len(os.sched_getaffinity(0)))
        began = time.monotonic()
        filled = fill(making, store, wanted, children, seconds, self._limit())
        if filled.made:  # otherwise it is each process's own checking time
            store.took(time.monotonic() - began)
            served.paid += time.monotonic() - began
        remarks = []
        if filled.fatal:
            store.drop()
            served.stale = f"the store was dropped: {filled.why}"
        elif filled.why:
            remarks.append(f"not all samples are kept: {filled.why}")
        if filled.left_out:
            remarks.append(f"{filled.left_out} samples are made anew each time, {_OF_CHANCE}")
        if filled.unseen and not filled.fatal:
            hold_for_this_run(store.path)
            remarks.append(_UNSEEN)
        served.remark = "; ".join(remarks) or served.remark

    def _is_rank(self) -> bool:
        """Whether other processes wait for this one in each step."""
        shared = self._torch.distributed
        return self._training.this_rank is not None or (shared.is_available() and shared.is_initialized())


_OF_CHANCE = "because making them draws random numbers, or the script's code meets errors in it"
_UNSEEN = "it cannot be seen which files it reads: what is kept is for this run only"
