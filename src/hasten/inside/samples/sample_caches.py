"""Samples kept in memory, shared by all techniques that read them from there.

A dataset's samples are kept only if making them is proven deterministic (``sampling_proof``). Setting any
attribute of the dataset, or of one it wraps, empties its cache, and so does a change found when a pass over
it begins (``visible_state``): an array or list that was written to. In every pass some samples are compared
with the dataset's own, to find invisible changes. When the script drops a dataset, its cache goes with it.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...records.observation import Loader
from ..living import Living
from ..seams import Call
from ..training import Training
from .attribute_watch import AttributeWatch
from .dataset_traits import length_of, takes_items_one_by_one
from .left_samples import LeftSamples
from .rows import rows_of
from .sample_cache import Cache
from .sample_room import SampleRoom
from .sampling_proof import prove_deterministic, states_of
from .transform_prefix import divide, has_transforms

if TYPE_CHECKING:
    from torch.utils.data import DataLoader

PYTHON_BYTES = 600  # memory of a sample's objects without their data
_NAME = "samples"  # in Training.kept
_LEAST_SPARED = 0.05  # of the time of making samples: not worth trying below, in a running training
_FIRST_STEPS = 5  # in which a plan is put in force that a process began with
_WORTH_LEAVING = 2.0  # seconds of making samples, from which on other processes of a tune are spared them
_COLD_BYTES = 2**20  # read from a disk meanwhile, from which on making samples took longer than it will again
_MANY = 4  # data sets that are looked at when they are first read
_TIMES = 2  # looks at a data set without success, after which it is not looked at again


@dataclass(frozen=True)
class _Filled:
    """Seconds: by which a run takes longer, and that later processes of a tune save."""

    longer_in_a_run: float = 0.0
    saved_later: float = 0.0


class SampleCaches:
    """The caches of one training, by dataset. In use while any technique uses them; kept in between."""

    @classmethod
    def of(cls, training: Training) -> SampleCaches:
        """The instance that all techniques share."""
        found = training.kept.get(_NAME)
        if not isinstance(found, cls):
            found = training.kept[_NAME] = cls(training)
        return found

    def __init__(self, training: Training) -> None:
        self._training = training
        self._users: set[str] = set()
        self._room = SampleRoom(training.available_bytes)
        self._caches: Living[Cache] = Living(self._gone)
        self._why_not: Living[str] = Living()
        self._disproved: Living[_Disproved] = Living()  # by the data set behind torch's Subsets
        # with the dataset's state when it was last in use
        self._kept: Living[tuple[Cache, object]] = Living(lambda kept: self._gone(kept[0]))
        self._looked_at = 0  # how many were
        self._passes: Living[int] = Living()  # that began over a data set
        self._read_for: Living[int] = Living()  # how many optimizers had been made when it was read last
        self._of_gone = 0, 0  # counts of dropped caches
        self.saved_later: dict[str, float] = {}  # seconds, by later processes of a tune; for each technique
        self._watch = AttributeWatch(training.seams, self._changed)
        self._stop_looking: Call = lambda: None

    @property
    def caches(self) -> Iterable[Cache]:
        return self._caches.values()

    def _gone(self, cache: Cache) -> None:
        """The script has dropped its dataset, or its training is over."""
        self._of_gone = self._of_gone[0] + cache.hits, self._of_gone[1] + cache.made
        cache.drop()

    @property
    def reasons(self) -> list[str]:
        """Why requested datasets have no cache."""
        return list(self._why_not.values())

    def acquire(self, user: str) -> None:
        """Caches from earlier use are reused if their datasets have not changed since."""
        if not self._users:
            self._why_not.clear()
            for dataset, (cache, state) in self._kept.items():
                if cache.stale or cache.source.state() != state:
                    cache.drop()
                    continue
                self._caches.put(dataset, cache)
                self._watch.watch(cache.source.parts)
            self._kept.clear()
            self._look_when_passes_begin()
        self._users.add(user)

    def _look_when_passes_begin(self) -> None:
        def beginning(original: Call) -> Call:
            def __iter__(loader: DataLoader[object]) -> object:
                self._passes.put(loader.dataset, 1 + (self._passes.get(loader.dataset) or 0))
                cache = self._caches.get(loader.dataset)
                if cache is not None:
                    cache.look_again()
                return original(loader)

            return __iter__

        from torch.utils.data import DataLoader

        self._stop_looking = self._training.seams.replace(DataLoader, "__iter__", beginning)

    def release(self, user: str) -> None:
        """A technique stops reading from the caches. After the last one they are set aside for later."""
        self._users.discard(user)
        if self._users:
            return
        self._watch.stop()
        self._stop_looking()
        for dataset, cache in self._caches.items():
            self._kept.put(dataset, (cache, cache.source.state()))
        self._caches.clear()

    def get(self, dataset: object) -> Cache | None:
        """The dataset's cache; None if its samples must not be kept, or not yet."""
        known = dataset in self._caches or dataset in self._why_not
        if not (known or self._waits(dataset)):
            self._looked_at += 1
            cache = self._known_reason(dataset) or self._prove(dataset)
            if isinstance(cache, str):
                self._why_not.put(dataset, cache)
            else:
                self._caches.put(dataset, cache)
                self._watch.watch(cache.source.parts)
        if self._read_for.get(dataset) != self._training.optimizers_added:
            self._read_for.put(dataset, self._training.optimizers_added)
        return self._caches.get(dataset)

    def _waits(self, dataset: object) -> bool:
        """Whether it is left alone until it is read again: where data sets come and go, such as one for each
        client of federated learning and each evaluation, looking at one takes longer than reading it once.
        """
        return self._looked_at >= _MANY and (self._passes.get(dataset) or 0) < 2

    def counts(self) -> tuple[int, int]:
        """Samples that came from memory, and samples that were made, in all."""
        hits, made = self._of_gone
        return hits + sum(cache.hits for cache in self.caches), made + sum(c.made for c in self.caches)

    def fill(self, user: str) -> float:
        """Make all samples of the datasets that the training reads, for this technique. Returns the seconds
        by which that takes longer in a run, where no other process of a tune has made them; below 0 if this
        one left them for others.
        """
        longer = saved = 0.0
        for dataset in self._training.training_datasets:
            cache = self._caches.get(dataset)
            if cache is not None:
                found = self._filled(cache, dataset)
                longer += found.longer_in_a_run
                saved += found.saved_later
        self.saved_later[user] = saved or self.saved_later.get(user, 0.0)
        return longer

    def _filled(self, cache: Cache, dataset: object) -> _Filled:
        torch, began = self._training.torch, time.perf_counter()
        if not cache.is_empty:
            cache.fill(torch)
            return _Filled()
        samples = LeftSamples(self._training, dataset, cache.source.prefix)
        left = samples.read(cache.source.make)
        if left is not None:
            cache.take(left.made.items())
            longer = left.seconds - (time.perf_counter() - began)
            return _Filled(longer, max(0.0, longer))
        made_from, read_before = time.perf_counter(), _read_from_disk()
        cache.fill(torch)
        seconds, is_left = time.perf_counter() - made_from, False
        if seconds >= _WORTH_LEAVING and not cache.stale:
            cold = _read_from_disk() - read_before > _COLD_BYTES
            is_left = not (cold and samples.put_off()) and samples.leave(cache.kept(), seconds)
        besides = time.perf_counter() - began - seconds  # reading takes no longer
        return _Filled(-besides, max(0.0, seconds - besides) if is_left else 0.0)

    def _known_reason(self, dataset: object) -> str:
        """Why samples are not deterministic, as was found before: to draw them again may take ten seconds. A
        data set that has changed since is looked at once more.
        """
        base = rows_of(self._training.torch, dataset).base
        known = self._disproved.get(base)
        return known.reason if known is not None and known.holds_for(base) else ""

    def _disprove(self, dataset: object, reason: str) -> str:
        base = rows_of(self._training.torch, dataset).base
        known = self._disproved.get(base)
        self._disproved.put(base, _Disproved(reason, states_of(base), 1 + (known.times if known else 0)))
        return reason

    def _prove(self, dataset: object) -> Cache | str:
        length = length_of(dataset)
        if not length:
            return f"{type(dataset).__name__} has no length"
        if not takes_items_one_by_one(dataset):
            return f"{type(dataset).__name__} makes whole batches itself (__getitems__)"
        torch, divided = self._training.torch, None
        reason, sample_bytes = prove_deterministic(torch, dataset, length)
        if reason and has_transforms(dataset):
            found, sample_bytes = divide(torch, dataset, length, self._least_spared)
            if isinstance(found, str):
                return self._disprove(dataset, f"{reason}; and of its transforms: {found}")
            divided = found
        elif reason:
            return self._disprove(dataset, reason)
        needed = length * (sample_bytes + PYTHON_BYTES)
        if reason := self._why_no_room(type(dataset).__name__, needed):
            return reason
        return Cache(dataset, self._room, needed, divided)

    @property
    def _least_spared(self) -> float | None:
        """A process that begins with a plan does what was found in others."""
        switches = self._training.in_a_trial and self._training.steps >= _FIRST_STEPS
        return _LEAST_SPARED if switches else None

    def _why_no_room(self, name: str, needed: int) -> str:
        """Caches of finished trainings make room: nothing was read from them since the latest optimizer was
        created.
        """
        for dataset, cache in self._caches.items():
            if not self._room.why_not(name, needed):
                break
            if self._read_for.get(dataset) != self._training.optimizers_added:
                self._caches.drop(dataset)
                self._gone(cache)
        return self._room.why_not(name, needed)

    def _changed(self, part: object) -> None:
        """An attribute was set on what caches may be made from: it empties them."""
        for known in self.caches:
            known.invalidate_if_made_from(part)


@dataclass(frozen=True)
class _Disproved:
    """Sampling was found not to be deterministic: why, for which state of the data set, and how often."""

    reason: str
    state: object
    times: int

    def holds_for(self, dataset: object) -> bool:
        return self.times >= _TIMES or self.state == states_of(dataset)


def not_read_by_index(loader: Loader) -> str:
    """Why a loader's samples cannot be kept by their indices; "" if they may be."""
    if loader.iterable or loader.samples is None:
        return f"{loader.dataset} is read as a stream, without indices"
    if not loader.default_fetch:
        return f"{loader.dataset} is not read sample by sample"
    return ""


def not_worth_keeping(loader: Loader) -> str:
    """Why keeping a loader's samples gains nothing, or cannot be; "" if it may."""
    if loader.changed and not loader.in_memory:
        return f"{loader.changed} changes from epoch to epoch, and samples that were kept would be made anew"
    if loader.changed_at_first and not loader.in_memory:
        return (
            f"{loader.changed_at_first} changed between the making of its loader and the first batch, as by "
            "scripts that draw other samples for each epoch; no second epoch was seen to tell"
        )
    if loader.random and not loader.transforms:
        return loader.random
    return not_read_by_index(loader)


def _read_from_disk() -> int:
    """Bytes that this process has read from disks so far."""
    return 512 * resource.getrusage(resource.RUSAGE_SELF).ru_inblock
