"""Keep every sample in memory once it is made, instead of reading and transforming it again each epoch.

What it does: samples stay in the training process once they are made, if making them is proven deterministic
(``sampling_proof``). All datasets of a process together may take two fifths of free memory, each for as long
as the script keeps it. If a dataset's transforms are random from some point on, as with torchvision's, the
result of the earlier ones is kept. The rest are called again for each sample, with the same random draws
(``transform_prefix``); a tune does not try that where the earlier ones take less than 5% of making a sample.
All samples are made before the first step; if that takes long, forked processes make a part each
(``forked_filling``). When it helps: reading, decoding or transforming takes long. When it hurts: memory is
short, or the script draws other samples for each epoch. Where that is seen, the data set is left alone, and
where it is changed between its loader's making and the first batch, as long as no second epoch was seen.
Where many data sets come and go, from the fifth on one is kept once it is read for the second time. Loaders
with worker processes are left alone: forked workers would share the pages of samples made before they start,
but the first epoch's workers start before the first training step.

Source: https://docs.pytorch.org/docs/stable/data.html#map-style-datasets
"""

from __future__ import annotations

import copy
import numbers
from collections.abc import Sequence
from typing import Any

from ...records.facts import Facts
from ...records.observation import Loader
from ...records.plan import Settings
from ...records.trial import Proof
from ..living import Living
from ..samples.rows import whole_numbers
from ..samples.sample_cache import Cache
from ..samples.sample_caches import PYTHON_BYTES, SampleCaches, not_worth_keeping
from ..samples.sample_room import too_large
from ..seams import Call
from ..training import NotApplicable, Training
from .base import Technique, each_once


class DatasetInRam(Technique):
    name = "dataset_in_ram"
    summary = "samples are kept in memory after they were made once"
    layer = "data"
    risk = "exact"
    scope = "live"
    restarts = True
    phases = ("data",)
    needs_samples = True

    def __init__(self) -> None:
        self._caches: SampleCaches | None = None
        self._spared = 0.0
        self._before = (0, 0)
        self._alike: Living[bool] = Living()  # by cache: whether tensors as indices give the same samples

    @classmethod
    def refuse(cls, facts: Facts) -> list[str]:
        loaders = facts.observation.training_loaders
        if not loaders:
            return ["the training reads from no DataLoader"]
        names, available = " and ".join(loader.dataset for loader in loaders), facts.machine.available_bytes
        reasons = each_once(_why_not(loader, available) for loader in loaders)
        together = too_large(names, sum(map(_needed, loaders)), available)
        return reasons or ([together] if together else [])

    def install(self, training: Training, settings: Settings) -> None:
        caches = self._caches = SampleCaches.of(training)
        caches.acquire(self.name)
        datasets = training.training_datasets or training.datasets
        found = [caches.get(dataset) for dataset in datasets]
        if not any(found):
            reasons = "; ".join(caches.reasons)
            self.remove(training)
            raise NotApplicable(reasons or "no dataset is read in the training process")
        self._before = caches.counts()
        default_collate = training.torch.utils.data.default_collate

        def provide(dataset: object, indices: Sequence[Any], collate: Call) -> list[object] | None:
            cache = caches.get(dataset)
            wanted = self._numbers(cache, indices) if cache is not None else None
            if cache is None or wanted is None:
                return None
            # default_collate copies samples into the batch; another function may write into what it gets
            if collate is default_collate:
                return cache.several(wanted)
            return copy.deepcopy(cache.several(wanted)) if cache.gives_copies(training.torch) else None

        training.fetch_providers[self.name] = provide

    def _numbers(self, cache: Cache, indices: Sequence[Any]) -> list[int] | None:
        """The indices as numbers; None if samples by such indices may be others."""
        if all(isinstance(index, numbers.Integral) for index in indices):
            return list(indices)
        found = whole_numbers(indices)
        if found and cache not in self._alike:  # a sampler may give tensors
            self._alike.put(cache, cache.gives_the_same(indices[0], found[0]))
        return found if found and self._alike.get(cache) else None

    def prepare(self, training: Training) -> None:
        if self._caches is not None:
            self._spared = self._caches.fill(self.name)

    def spared_seconds(self) -> float:
        return self._spared

    def remove(self, training: Training) -> None:
        training.fetch_providers.pop(self.name, None)
        if self._caches is not None:
            self._caches.release(self.name)

    def proof(self, training: Training) -> Proof:
        """Counts the samples that came from memory and those that were made; a cache that the script made
        stale does not count.
        """
        assert self._caches is not None
        hits, made = (now - then for now, then in zip(self._caches.counts(), self._before, strict=True))
        remarks = [remark for cache in self._caches.caches if (remark := cache.remark)]
        stale = any(cache.stale for cache in self._caches.caches)
        evidence = "; ".join([f"{hits} samples came from memory, {made} were made", *remarks])
        shared = self._caches.saved_later.get(self.name, 0.0)
        return Proof(self.name, made + hits > 0 and not stale, evidence, shared_seconds=shared)

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


def _why_not(loader: Loader, available_bytes: int) -> str:
    if reason := not_worth_keeping(loader):
        return reason
    if loader.workers:
        return f"{loader.dataset} is read by {loader.worker_processes}, each with memory of its own"
    if loader.in_memory:
        return f"{loader.dataset} holds its samples in memory already"
    return too_large(loader.dataset, _needed(loader), available_bytes)


def _needed(loader: Loader) -> int:
    """Bytes that all samples of the loader need."""
    return (loader.samples or 0) * ((loader.sample_bytes or 0) + PYTHON_BYTES)
