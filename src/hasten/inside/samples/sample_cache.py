"""Samples kept in memory, shared by all techniques that read them from there.

A dataset's samples are kept only on proof that making them is deterministic (``sampling_proof``). Setting any
attribute of the dataset, or of one it wraps, empties its cache. In every pass some samples are compared with
the dataset's own, to find changes that set no attribute.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from types import ModuleType
from typing import Any

from ...records.observation import Loader
from ..observing.identify import length_of, takes_items_one_by_one
from ..random_state import comparable, fingerprint, set_streams, state_of_streams
from ..training import NotApplicable, Training
from .attribute_watch import AttributeWatch
from .columns import Columns, Uneven
from .forked_filling import made_in_parallel
from .sampling_proof import chain, prove_deterministic, same_sample, states_of
from .transform_prefix import Divided, divide, has_transforms

MEMORY_SHARE = 0.4  # of what is available, for all samples
PYTHON_BYTES = 600  # what a sample's objects weigh besides their data
_SPOT_CHECKS = 4  # samples compared with the dataset again at every pass over the cache
_NAME = "samples"  # in Training.kept


class SampleCaches:
    """The caches of one training, by dataset. In use while any technique uses them; kept in between."""

    @classmethod
    def of(cls, training: Training) -> SampleCaches:
        """The one that all techniques share."""
        found = training.kept.get(_NAME)
        if not isinstance(found, cls):
            found = training.kept[_NAME] = cls(training)
        return found

    def __init__(self, training: Training) -> None:
        self._training = training
        self._users: set[str] = set()
        self._caches: dict[int, Cache] = {}
        self._why_not: dict[int, str] = {}
        self._kept: dict[int, tuple[Cache, object]] = {}  # with the dataset's state when it was last in use
        self._gone = 0, 0  # counts of those that made room
        self._read_for: dict[int, int] = {}  # how many optimizers had been made when it was read last
        self._watch = AttributeWatch(training.seams, self._changed)

    @property
    def caches(self) -> Iterable[Cache]:
        return self._caches.values()

    @property
    def reasons(self) -> list[str]:
        """Why datasets that were asked for have no cache."""
        return list(self._why_not.values())

    def acquire(self, user: str) -> None:
        """Caches from earlier use are used again if their datasets have not changed since."""
        if not self._users:
            self._why_not = {}
            for key, (cache, state) in self._kept.items():
                if not cache.stale and cache.state() == state:
                    self._caches[key] = cache
                    self._watch.watch(cache.parts)
            self._kept = {}
        self._users.add(user)

    def release(self, user: str) -> None:
        self._users.discard(user)
        if self._users:
            return
        self._watch.stop()
        self._kept.update({key: (cache, cache.state()) for key, cache in self._caches.items()})
        self._caches = {}

    def get(self, dataset: object) -> Cache | None:
        """The dataset's cache; None where its samples must not be kept."""
        key = id(dataset)
        if key not in self._caches and key not in self._why_not:
            cache = self._prove(dataset)
            if isinstance(cache, str):
                self._why_not[key] = cache
            else:
                self._caches[key] = cache
                self._watch.watch(cache.parts)
        self._read_for[key] = self._training.optimizers_added
        return self._caches.get(key)

    def counts(self) -> tuple[int, int]:
        """Samples that came from memory, and samples that were made, in all."""
        hits, made = self._gone
        return hits + sum(cache.hits for cache in self.caches), made + sum(c.made for c in self.caches)

    def fill(self) -> None:
        """Make all samples of the datasets that the training reads."""
        for key in self._training.training_datasets:
            if key in self._caches:
                self._caches[key].fill(self._training.torch)

    def _prove(self, dataset: object) -> Cache | str:
        length = length_of(dataset)
        if not length:
            return f"{type(dataset).__name__} has no length"
        if not takes_items_one_by_one(dataset):
            return f"{type(dataset).__name__} makes whole batches itself (__getitems__)"
        torch, divided = self._training.torch, None
        reason, sample_bytes = prove_deterministic(torch, dataset, length)
        if reason and has_transforms(dataset):
            found, sample_bytes = divide(torch, dataset, length)
            if isinstance(found, str):
                return f"{reason}; and of its transforms: {found}"
            divided = found
        elif reason:
            return reason
        name, available = type(dataset).__name__, self._training.available_bytes
        needed = length * (sample_bytes + PYTHON_BYTES)
        if reason := too_large(name, needed, available):
            return reason
        if not self._has_room(needed):
            return f"the samples of other data sets leave no room for those of {name}"
        return Cache(dataset, self._has_room(2 * needed), divided, needed)

    def _has_room(self, needed: int) -> bool:
        """Within the share of memory for all. Caches of trainings that are over make room: nothing was read
        from them since the latest optimizer was made.
        """
        room = MEMORY_SHARE * self._training.available_bytes - needed
        made, read_for = self._training.optimizers_added, self._read_for
        for key in [key for key in self._caches if read_for.get(key) != made]:
            if self._nbytes() <= room:
                break
            gone = self._caches.pop(key)
            self._gone = self._gone[0] + gone.hits, self._gone[1] + gone.made
        return self._nbytes() <= room

    def _nbytes(self) -> int:
        return sum(cache.nbytes for cache in self.caches)

    def _changed(self, part: object) -> None:
        """An attribute was set on what caches may be made from: it empties them."""
        for known in self.caches:
            known.invalidate_if_made_from(part)


class Cache:
    """Samples of one dataset by index, made on first use.

    ``roomy``: there is memory for them twice. ``divided``: what is kept is not finished, and made into a
    sample each time it is asked for.
    """

    def __init__(
        self, dataset: Any, roomy: bool = False, divided: Divided | None = None, nbytes: int = 0
    ) -> None:
        """``nbytes``: what all samples are expected to weigh."""
        self.dataset = dataset
        self.nbytes = nbytes
        self._divided = divided
        self.parts = list(chain(dataset)) if divided is None else divided.parts
        self.hits = 0
        self.made = 0
        self.stale = ""
        self.uneven = "" if roomy else "there is no room for a second copy of the samples"
        if divided is not None:
            self.uneven = "samples have random transforms"
        self._samples: dict[int, object] = {}
        self._columns: Columns | None = None
        self._since_check = 0

    def __getitem__(self, index: int) -> object:
        if self._divided is not None and not (self.stale or self._divided.is_intact):
            self._give_up("the transforms were replaced")
        if self.stale:
            self.made += 1
            return self.dataset[index]
        sample = self._samples.get(index, self)
        if sample is self:
            before = fingerprint(sys.modules["torch"])
            sample = self._samples[index] = self._make(index)
            self.made += 1
            if fingerprint(sys.modules["torch"]) != before:
                self._give_up(f"making sample {index} drew random numbers")
        else:
            self.hits += 1
            if self._check_is_due(1):
                sample = self._checked(index, sample)
        return sample if self._divided is None else self._divided.finish(sample)

    def gives_the_same(self, index: Any, number: int) -> bool:
        """Whether the dataset makes the same sample for ``index``, which is ``number`` in another type."""
        if self._divided is not None:  # whose transforms would draw random numbers
            return False
        return same_sample(self.dataset[index], self._make(number))

    def _make(self, index: int) -> object:
        return self.dataset[index] if self._divided is None else self._divided.make(index)

    @property
    def remark(self) -> str:
        """How the samples are kept, if that is worth saying."""
        return self.stale or (str(self._divided) if self._divided is not None else "")

    def columns(self, torch: ModuleType) -> Columns | None:
        """All samples side by side, once all are made and if they can be laid so."""
        if self._columns is None and not (self.stale or self.uneven):
            length = len(self.dataset)
            if len(self._samples) >= length and all(index in self._samples for index in range(length)):
                try:
                    self._columns = Columns(torch, [self._samples[index] for index in range(length)])
                except Uneven as error:
                    self.uneven = str(error)
        return self._columns

    def batch(self, torch: ModuleType, indices: list[int]) -> object:
        """A batch gathered from ``columns``; None where it cannot be."""
        columns = self.columns(torch)
        found = columns.batch(indices) if columns is not None else None
        if found is None:
            return None
        if self._check_is_due(len(indices)):
            self._checked(indices[0], self._samples[indices[0]])
            if self.stale:
                return None
        self.hits += len(indices)
        return found

    def _check_is_due(self, samples: int) -> bool:
        self._since_check += samples
        if self._since_check * _SPOT_CHECKS < len(self._samples):
            return False
        self._since_check = 0
        return True

    def _checked(self, index: int, sample: object) -> object:
        """Compares a sample with the dataset's own, to find changes that set no attribute (an array written
        in place).
        """
        fresh = self._make(index)
        if not same_sample(fresh, sample):
            self._give_up(f"sample {index} changed")
        return fresh

    def _give_up(self, why: str) -> None:
        self.stale = f"{why} while training: the cache was given up"
        self._empty()

    def _empty(self) -> None:
        self._samples.clear()
        self._columns = None

    def state(self) -> object:
        return states_of(self.dataset) if self._divided is None else self._divided.state()

    def fill(self, torch: ModuleType) -> None:
        """Raises NotApplicable where the dataset cannot make one of its samples, or where making one draws
        random numbers though those that were looked at did not: the streams are as before then.
        """
        before = state_of_streams(torch)
        self._fill(torch)
        if fingerprint(torch) != tuple(comparable(before)):
            self._give_up("making some of its samples draws random numbers")
            set_streams(torch, before)
            raise NotApplicable(f"making some samples of {type(self.dataset).__name__} draws random numbers")

    def _fill(self, torch: ModuleType) -> None:
        missing = [index for index in range(len(self.dataset)) if index not in self._samples]
        for index, sample in made_in_parallel(torch, self._surely_made, missing):
            self._samples[index] = sample

    def _surely_made(self, index: int) -> object:
        try:
            return self._make(index)
        except Exception as error:
            name = type(self.dataset).__name__
            raise NotApplicable(f"sample {index} of {name} raised {type(error).__name__}: {error}") from error

    def invalidate_if_made_from(self, part: object) -> None:
        if not any(part is known for known in self.parts):
            return
        self._empty()
        if self._divided is not None:  # what was proven of its transforms may hold no longer
            self._give_up("the dataset was changed")


def not_read_by_index(loader: Loader) -> str:
    """Why a loader's samples cannot be kept by their indices; "" where they may be."""
    if loader.iterable or loader.samples is None:
        return f"{loader.dataset} is read as a stream, without indices"
    if not loader.default_fetch:
        return f"{loader.dataset} is not read sample by sample"
    return ""


def too_large(name: str, needed: int, available: int, share: float = MEMORY_SHARE) -> str:
    """Why a data set's samples cannot be kept, which need so many bytes, in this share of the bytes of memory
    that are ``available``; "" where they can.
    """
    if needed <= share * available:
        return ""
    return (
        f"all samples of {name} need {needed / 2**30:.1f} GiB, more than {share:.0%} of the "
        f"{available / 2**30:.1f} GiB of memory that are free"
    )
