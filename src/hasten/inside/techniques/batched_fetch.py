"""Gather a batch at once from samples stored in columns in memory, instead of one by one in Python.

What it does: rows of tensors in memory are gathered by one index operation per tensor: those of a
TensorDataset, or of a data set that only returns rows or windows of the tensors or arrays that it holds,
perhaps as another type (``self.x[i : i + 30], torch.tensor(self.y[i])``). Samples of other datasets are made
once, on the same proof as for dataset_in_ram, and stored in columns; this needs memory for them twice. When
it helps: small samples, if Python's work per sample and the collate function cost more than copying the
bytes. When it hurts: large samples gain little, and samples that were not in memory before need it.

Sources: https://docs.pytorch.org/docs/stable/generated/torch.index_select.html,
https://docs.pytorch.org/docs/stable/data.html#disable-automatic-batching
"""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import Any

from ...records.facts import Facts
from ...records.observation import Loader
from ...records.plan import Settings
from ...records.trial import Proof
from ..internals.loaders import collating
from ..living import Living
from ..samples.columns import same_batch, tensors_behind
from ..samples.dataset_traits import length_of
from ..samples.rows import whole_numbers
from ..samples.sample_caches import PYTHON_BYTES, SampleCaches, not_worth_keeping
from ..samples.sample_room import too_large
from ..seams import Call
from ..training import NotApplicable, Training
from .base import Technique, each_once

_REHEARSED = 3  # samples of which a batch is made both ways before a dataset is gathered from


class BatchedFetch(Technique):
    name = "batched_fetch"
    summary = "a batch is gathered at once from samples in memory"
    layer = "data"
    risk = "exact"
    scope = "live"
    restarts = True
    phases = ("data",)
    needs_samples = True

    def __init__(self) -> None:
        self._caches: SampleCaches | None = None
        self._spared = 0.0
        self._trusted: Living[str] = Living()  # of tensors: why it is not gathered from, or ""
        self._gathered = 0
        self._others = 0

    @classmethod
    def refuse(cls, facts: Facts) -> list[str]:
        loaders = facts.observation.training_loaders
        if not loaders:
            return ["the training reads from no DataLoader"]
        return each_once(_why_not(loader, facts.machine.available_bytes) for loader in loaders)

    def install(self, training: Training, settings: Settings) -> None:
        torch = training.torch
        collate_module = collating()
        default_collate = torch.utils.data.default_collate
        plain = collate_module.collate_tensor_fn
        caches = self._caches = SampleCaches.of(training)
        caches.acquire(self.name)
        datasets = training.training_datasets or training.datasets
        usable = [self._is_trusted(torch, d) if _in_memory(torch, d) else caches.get(d) for d in datasets]
        if not any(usable):
            reasons = "; ".join([*filter(None, self._trusted.values()), *caches.reasons])
            self.remove(training)
            raise NotApplicable(reasons or "no dataset is read in the training process")

        def provide(dataset: Any, indices: Sequence[Any], collate: Call) -> object:
            # a script may have changed how default_collate treats tensors
            usual = (
                collate is default_collate and collate_module.default_collate_fn_map[torch.Tensor] is plain
            )
            before = self._gathered
            batch = self._batch(torch, dataset, indices) if usual and len(indices) else None
            self._others += self._gathered == before
            return batch

        training.batch_providers[self.name] = provide

    def _batch(self, torch: ModuleType, dataset: Any, indices: Sequence[Any]) -> object:
        assert self._caches is not None
        batch: object = None
        if _in_memory(torch, dataset):
            batch = _rows(torch, dataset, indices) if self._is_trusted(torch, dataset) else None
        elif (wanted := whole_numbers(indices)) and (cache := self._caches.get(dataset)) is not None:
            batch = cache.batch(torch, wanted)
            if batch is None and not (cache.stale or cache.uneven):  # it is not full yet
                return torch.utils.data.default_collate(cache.several(wanted))
        self._gathered += batch is not None
        return batch

    def _is_trusted(self, torch: ModuleType, dataset: Any) -> bool:
        """Whether a batch of a few samples is the same both ways."""
        if dataset not in self._trusted:
            name = type(dataset).__name__
            indices = list(range(min(_REHEARSED, length_of(dataset) or 0)))
            expected = (
                torch.utils.data.default_collate([dataset[index] for index in indices]) if indices else 0
            )
            same = bool(indices) and same_batch(_rows(torch, dataset, indices), expected)
            self._trusted.put(dataset, "" if same else f"gathering from {name} gives another batch")
        return not self._trusted.get(dataset)

    def prepare(self, training: Training) -> None:
        if self._caches is not None:
            self._spared = self._caches.fill(self.name)
            for cache in self._caches.caches:
                cache.columns(training.torch)

    def spared_seconds(self) -> float:
        return self._spared

    def remove(self, training: Training) -> None:
        training.batch_providers.pop(self.name, None)
        if self._caches is not None:
            self._caches.release(self.name)

    def proof(self, training: Training) -> Proof:
        """Counts the batches that were gathered at once, and those that were not."""
        evidence = [f"{self._gathered} batches were gathered, {self._others} were not"]
        for cache in self._caches.caches if self._caches is not None else ():
            evidence += filter(None, (cache.stale, cache.uneven))
        shared = self._caches.saved_later.get(self.name, 0.0) if self._caches is not None else 0.0
        return Proof(self.name, self._gathered > 0, "; ".join(evidence), shared_seconds=shared)

    @classmethod
    def by_hand(cls, settings: Settings) -> str:
        return (
            "inputs, targets = default_collate([dataset[i] for i in range(len(dataset))])  # once\n"
            "\n"
            "order = torch.randperm(len(inputs))  # each epoch\n"
            "for rows in order.split(batch_size):\n"
            "    batch = inputs[rows], targets[rows]"
        )


def _in_memory(torch: ModuleType, dataset: object) -> bool:
    return tensors_behind(torch, dataset, ()) is not None


def _rows(torch: ModuleType, dataset: object, indices: Sequence[object]) -> object:
    found = whole_numbers(indices)
    held = tensors_behind(torch, dataset, found) if found is not None else None
    return held.batch(torch) if held is not None else None


def _why_not(loader: Loader, available_bytes: int) -> str:
    if reason := not_worth_keeping(loader):
        return reason
    if not loader.default_collate:
        return f"{loader.dataset} is put into batches by a function of the script's own"
    if loader.workers:
        return f"{loader.dataset} is read by {loader.worker_processes}"
    if loader.in_memory:
        return ""
    needed = 2 * (loader.samples or 0) * ((loader.sample_bytes or 0) + PYTHON_BYTES)
    return too_large(loader.dataset, needed, available_bytes)
