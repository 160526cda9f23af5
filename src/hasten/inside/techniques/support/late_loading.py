"""Loaders whose pictures become tensors together: the seams, in the training process and in its workers."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ....records.machine import Machine
from ....records.observation import Loader
from ...internals.loaders import WORKER_LOOP, makes_batches, reads_indices, worker_module
from ...samples.dataset_traits import takes_items_one_by_one
from ...samples.late_dataset import NOT_LAST
from ...samples.late_fetch import HandedProof, is_usual
from ...samples.late_pictures import Gather
from ...samples.late_sets import LateSets
from ...samples.sample_caches import not_read_by_index
from ...samples.worker_entry import WorkerEntry
from ...samples.worker_starts import can_run_ours
from ...seams import Call
from ...training import NotApplicable, Training
from ..base import conflicting, each_once

if TYPE_CHECKING:
    from torch.utils.data import DataLoader

    from ...internals.loaders import LoaderIterator

_ALONE = "each of them takes the place of the data set"
APART = conflicting(dataset_in_ram=_ALONE, batched_fetch=_ALONE, sample_store=_ALONE)
"""Other techniques that replace the data set."""


class LateLoading:
    """In force as long as the training's seams are. ``name`` is the technique's; ``gather`` makes what stands
    for the pictures of a batch.
    """

    def __init__(self, training: Training, name: str, gather: Gather) -> None:
        self.sets = LateSets(training, gather)
        self._torch = training.torch
        self._home = os.getpid()
        self._before = (0, 0, 0)
        self._entry: WorkerEntry | None = None
        from torch.utils.data import DataLoader

        training.seams.replace(worker_module(), WORKER_LOOP, self._entering)
        training.seams.replace(DataLoader, "__iter__", self._around_iter)
        training.batch_providers[name] = self._provide

    def _entering(self, original: Call) -> WorkerEntry:
        self._entry = WorkerEntry(original)
        return self._entry

    def _around_iter(self, original: Callable[..., LoaderIterator]) -> Call:
        def __iter__(loader: DataLoader[object]) -> LoaderIterator:
            if os.getpid() != self._home or self._entry is None:
                return original(loader)
            handed = self._entry.handed = self._opened(loader)
            try:
                iterator = original(loader)
            finally:
                self._entry.handed = None
            if handed is not None:
                self.sets.begun(iterator)
            return iterator

        return __iter__

    def _opened(self, loader: DataLoader[object]) -> HandedProof | None:
        """What the loader's workers need in the coming pass; None if they make batches as usual."""
        try:
            reason = _why_left_alone(loader)
            if not reason:
                return self.sets.opened(loader.dataset)
        except Exception as error:  # errors of the script's own objects when examined
            reason = f"{type(error).__name__}: {error}"
        self.sets.reasons[reason] = None
        return None

    def _provide(self, dataset: object, indices: Sequence[Any], collate: Call) -> object:
        ours = os.getpid() == self._home and is_usual(self._torch, collate)
        late = self.sets.known(dataset) if ours else None
        batch = late.batch(indices) if late is not None else None
        if late is not None and batch is None:
            late.left(len(indices))
        return batch

    def begin(self) -> None:
        """Count from now on. Raises NotApplicable if no data set that was read can be served."""
        if not self.sets.proven and self.sets.reasons:
            raise NotApplicable("; ".join(self.sets.reasons))
        self._before = self.sets.counts.total()

    @property
    def counted(self) -> tuple[int, ...]:
        """Samples, in all processes: whose batch was made so; that were made as without us; that were
        compared.
        """
        now = self.sets.counts.total()
        return tuple(a - b for a, b in zip(now, self._before, strict=True))

    @property
    def remarks(self) -> list[str]:
        """Why it was given up, and why some data sets are left alone."""
        return [*filter(None, [self.sets.counts.given_up]), *self.sets.reasons]


def refused_machine(machine: Machine) -> list[str]:
    return [] if machine.system == "Linux" else [f"it is not made for {machine.system}"]


def refused_loaders(loaders: Sequence[Loader]) -> list[str]:
    """Why none of a training's loaders can be served; empty if one can."""
    if not loaders:
        return ["the training reads from no DataLoader"]
    reasons = [_why_not(loader) for loader in loaders]
    return each_once(reasons) if all(reasons) else []


def _why_not(loader: Loader) -> str:
    if reason := not_read_by_index(loader):
        return reason
    if not loader.default_collate:
        return f"{loader.dataset} is put into batches by a function of the script's own"
    return "" if loader.pictures else NOT_LAST.format(loader.dataset)


def _why_left_alone(loader: DataLoader[Any]) -> str:
    """Why this loader's batches are made as usual, whatever its data set; "" if they need not be."""
    import torch

    name = type(loader.dataset).__name__
    if not reads_indices(loader):
        return f"{name} is read as a stream"
    if not makes_batches(loader) or not takes_items_one_by_one(loader.dataset):
        return f"{name} is not read sample by sample"
    if not is_usual(torch, loader.collate_fn):
        return f"{name} is put into batches by a function of the script's own"
    if loader.num_workers and not can_run_ours(loader):
        return f"{name} is read by processes that are started anew, which cannot import hasten"
    return ""
