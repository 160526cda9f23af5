"""Keep every sample in memory once it was made, instead of reading and transforming it again each epoch.

Done only on proof that sampling is deterministic; see ``sampling_proof``.
"""

from __future__ import annotations

import copy
import numbers
from collections.abc import Callable, Sequence
from typing import Any

from ...records.facts import Facts
from ...records.plan import Settings
from ...records.trial import Proof
from ..identify import length_of, takes_items_one_by_one
from ..sampling_proof import chain, prove_deterministic, same_sample, states_of
from ..training import NotApplicable, Training
from .base import Technique

_MEMORY_SHARE = 0.4  # of what is available, for all samples of one dataset
_PYTHON_BYTES = 600  # what a sample's objects weigh besides their data
_SPOT_CHECKS = 4  # samples compared with the dataset again at every pass over the cache


class DatasetInRam(Technique):
    name = "dataset_in_ram"
    summary = "samples are kept in memory after they were made once"
    layer = "data"
    risk = "exact"
    scope = "live"

    def __init__(self) -> None:
        self._caches: dict[int, _Cache] = {}
        self._why_not: dict[int, str] = {}
        self._undo: list[Callable[[], None]] = []
        self._watched: set[type] = set()

    @classmethod
    def refuse(cls, facts: Facts) -> list[str]:
        loaders = [loader for loader in facts.observation.loaders if loader.training]
        if not loaders:
            return ["the training reads from no DataLoader"]
        return [reason for loader in loaders if (reason := _why_not(loader, facts.machine.available_bytes))]

    def install(self, training: Training, settings: Settings) -> None:
        self._take_up_kept(training)
        for dataset in (training.training_datasets or training.datasets).values():
            self._cache_of(training, dataset)
        if not self._caches:
            raise NotApplicable(
                "; ".join(self._why_not.values()) or "no dataset is read in the training process"
            )
        default_collate = training.torch.utils.data.default_collate

        def provide(dataset: Any, indices: Sequence[Any], collate: Any) -> list[Any] | None:
            cache = self._cache_of(training, dataset)
            if cache is None or not all(isinstance(index, numbers.Integral) for index in indices):
                return None
            samples = [cache[index] for index in indices]
            # default_collate copies samples into the batch; another function may write into what it gets
            return samples if collate is default_collate else copy.deepcopy(samples)

        training.fetch_providers[self.name] = provide

    def _take_up_kept(self, training: Training) -> None:
        """Caches from the last time on are good as long as nothing was done to their datasets since."""
        for key, (cache, state) in training.kept.pop(self.name, {}).items():
            if not cache.stale and cache.state() == state:
                self._caches[key] = cache
                cache.hits = cache.made = 0
                self._watch(training, cache.dataset)

    def _cache_of(self, training: Training, dataset: Any) -> _Cache | None:
        key = id(dataset)
        if key not in self._caches and key not in self._why_not:
            reason = self._prove(training, dataset)
            if reason:
                self._why_not[key] = reason
            else:
                self._caches[key] = _Cache(dataset)
                self._watch(training, dataset)
        return self._caches.get(key)

    def _prove(self, training: Training, dataset: Any) -> str:
        length = length_of(dataset)
        if not length:
            return f"{type(dataset).__name__} has no length"
        if not takes_items_one_by_one(dataset):
            return f"{type(dataset).__name__} makes whole batches itself (__getitems__)"
        reason, sample_bytes = prove_deterministic(training.torch, dataset, length)
        needed = length * (sample_bytes + _PYTHON_BYTES)
        if not reason and needed > _MEMORY_SHARE * training.available_bytes:
            reason = _too_large(needed, training.available_bytes)
        return reason

    def _watch(self, training: Training, dataset: Any) -> None:
        """Any attribute set on the dataset, or on one it wraps, empties the caches that hold its samples."""
        for part in chain(dataset):
            kind = type(part)
            if kind in self._watched or not hasattr(part, "__dict__"):
                continue
            self._watched.add(kind)

            def watching(original: Any) -> Any:
                def __setattr__(instance: Any, name: str, value: Any) -> None:
                    original(instance, name, value)
                    for cache in self._caches.values():
                        cache.invalidate_if_made_from(instance)

                return __setattr__

            self._undo.append(training.seams.replace(kind, "__setattr__", watching))

    def prepare(self, training: Training) -> None:
        for key in training.training_datasets:
            if key in self._caches:
                self._caches[key].fill()

    def remove(self, training: Training) -> None:
        training.fetch_providers.pop(self.name, None)
        while self._undo:
            self._undo.pop()()
        training.kept[self.name] = {key: (cache, cache.state()) for key, cache in self._caches.items()}
        self._caches = {}

    def proof(self, training: Training) -> Proof:
        hits = sum(cache.hits for cache in self._caches.values())
        made = sum(cache.made for cache in self._caches.values())
        stale = [reason for cache in self._caches.values() if (reason := cache.stale)]
        evidence = f"{hits} samples came from memory, {made} were made" + "".join(
            f"; {reason}" for reason in stale
        )
        return Proof(self.name, made + hits > 0 and not stale, evidence)

    @classmethod
    def by_hand(cls, settings: Settings) -> str:
        return (
            "class InRam(torch.utils.data.Dataset):\n"
            "    def __init__(self, dataset):\n"
            "        self.samples = [dataset[i] for i in range(len(dataset))]\n"
            "    def __len__(self):\n"
            "        return len(self.samples)\n"
            "    def __getitem__(self, i):\n"
            "        return self.samples[i]\n"
            "\n"
            "loader = DataLoader(InRam(dataset), ...)"
        )


class _Cache:
    """Samples by index, made on first use."""

    def __init__(self, dataset: Any) -> None:
        self.dataset = dataset
        self._parts = {id(part) for part in chain(dataset)}
        self._samples: dict[int, Any] = {}
        self._since_check = 0
        self.hits = 0
        self.made = 0
        self.stale = ""

    def __getitem__(self, index: int) -> Any:
        sample = self._samples.get(index, self)
        if sample is self:
            sample = self.dataset[index]
            if not self.stale:
                self._samples[index] = sample
            self.made += 1
            return sample
        self.hits += 1
        self._since_check += 1
        if self._since_check * _SPOT_CHECKS >= len(self._samples):
            self._since_check = 0
            return self._checked(index, sample)
        return sample

    def _checked(self, index: int, sample: Any) -> Any:
        """A change of the data that no attribute tells of (an array written in place) must not go unseen."""
        fresh = self.dataset[index]
        if not same_sample(fresh, sample):
            self.stale = f"sample {index} changed while training: the cache was given up"
            self._samples.clear()
        return fresh

    def state(self) -> Any:
        return states_of(self.dataset)

    def fill(self) -> None:
        for index in range(len(self.dataset)):
            if index not in self._samples:
                self._samples[index] = self.dataset[index]

    def invalidate_if_made_from(self, part: Any) -> None:
        if id(part) in self._parts:
            self._samples.clear()


def _why_not(loader: Any, available_bytes: int) -> str:
    if loader.iterable or loader.samples is None:
        return f"{loader.dataset} is read as a stream, without indices"
    if not loader.default_fetch:
        return f"{loader.dataset} is not read sample by sample"
    if loader.workers:
        return f"{loader.dataset} is read by {loader.workers} worker processes, each with memory of its own"
    needed = loader.samples * ((loader.sample_bytes or 0) + _PYTHON_BYTES)
    if needed > _MEMORY_SHARE * available_bytes:
        return _too_large(needed, available_bytes)
    return ""


def _too_large(needed: int, available: int) -> str:
    return (
        f"all samples need {needed / 2**30:.1f} GiB, more than {_MEMORY_SHARE:.0%} of the "
        f"{available / 2**30:.1f} GiB that are free"
    )
