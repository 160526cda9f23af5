"""Let a loader's worker processes stay for the next epoch, as many as the script asks for.

What it does: workers that the script would end with each pass over their loader and start again stay alive.
An epoch begins in them as in new ones: the main process draws the base seed, the workers' RNG states are
seeded from it, and ``worker_init_fn`` is called. A new worker is also a copy of the training process at that
moment. So before each epoch the dataset and everything its samples are made from is compared, here and in the
workers, with what it was when they were started. If anything differs (``set_epoch``, a cache that a worker
filled, its own generator), workers are started again for that epoch. Loaders of evaluations count, too.

When it helps: epochs are short, the training process is large (forking it takes long), or workers open files
before they make their first sample. When it hurts: memory is short, because workers stay during the
evaluation.

What it does not do: make the next epoch's batches ahead. Their order and seeds could be predicted, but
samples also depend on files and shared memory, which an evaluation may write.

Source: https://docs.pytorch.org/docs/stable/data.html#multi-process-data-loading
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

from ...records.facts import Facts
from ...records.machine import Machine
from ...records.observation import Loader
from ...records.plan import Settings
from ...records.trial import Proof
from ..internals.loaders import reads_indices
from ..samples.kept_workers import KeptWorkers
from ..samples.loader_override import LoaderOverride, context_of, is_forked
from ..training import Training
from .base import Technique, conflicting

if TYPE_CHECKING:
    from torch.utils.data import DataLoader


class PersistentWorkers(Technique):
    name = "persistent_workers"
    summary = "the loaders' worker processes stay from epoch to epoch"
    layer = "data"
    risk = "exact"
    scope = "process"
    restarts = True
    parts = ("first batches", "epoch turns")
    conflicts = conflicting(
        loader_workers="it lets workers stay by a setting of its own",
        processes="each rank seeds the workers of its own",
    )

    def __init__(self) -> None:
        self._kept: KeptWorkers | None = None
        self._why_not: dict[str, None] = {}

    @classmethod
    def refuse_machine(cls, machine: Machine) -> list[str]:
        if machine.system == "Linux":
            return []
        return [f"on {machine.system} worker processes are not copies of the training process"]

    @classmethod
    def refuse(cls, facts: Facts) -> list[str]:
        reasons = cls.refuse_machine(facts.machine)
        loaders, run = facts.observation.loaders, facts.observation.run
        useful = [loader for loader in loaders if not _why_not(loader)]
        if not useful:
            return [*reasons, *_all_reasons(loaders)]
        if run is not None and run.ended and run.epochs <= 1 and all(loader.training for loader in useful):
            reasons.append("the script trains for one epoch, and its workers are started once")
        return reasons

    def start(self, training: Training, settings: Settings) -> None:
        home = os.getpid()
        kept = self._kept = KeptWorkers(training)

        def choose(loader: DataLoader[object]) -> Mapping[str, object] | None:
            if os.getpid() != home or not loader.num_workers or loader.persistent_workers:
                return None
            try:
                reason = self._reason(loader, kept)
            except Exception as error:  # what the script's own objects raise when they are looked at
                reason = f"{type(error).__name__}: {error}"
            if reason:
                self._why_not[reason] = None
                return None
            return {"persistent_workers": True}

        LoaderOverride(training, choose, kept)

    def _reason(self, loader: DataLoader[object], kept: KeptWorkers) -> str:
        """Why a loader is left as it is; "" if it is not."""
        name = type(loader.dataset).__name__
        if not reads_indices(loader):
            return f"{name} is read as a stream, in which a worker may keep its place"
        if not is_forked(context_of(loader)):
            return f"the workers of {name} are not forked, and so cannot be asked what has changed in them"
        if "imgaug" in sys.modules:
            return "imgaug draws from a generator of its own, which starts over in every new worker"
        return kept.why_no_more(loader)

    def proof(self, training: Training) -> Proof:
        """Counts the epochs, of evaluations too, started by workers that had stayed."""
        resumed = self._kept.resumed if self._kept is not None else 0
        reasons = [*(self._kept.renewed if self._kept is not None else ()), *self._why_not]
        evidence = "; ".join([f"{resumed} passes were begun by workers that had stayed", *reasons])
        return Proof(self.name, resumed > 0, evidence)

    @classmethod
    def by_hand(cls, settings: Settings) -> str:
        return "loader = DataLoader(dataset, ..., num_workers=2, persistent_workers=True)"


def _why_not(loader: Loader) -> str:
    if not loader.workers:
        return f"{loader.dataset} is read without worker processes"
    if loader.keeps_workers:
        return f"{loader.dataset} keeps its workers from epoch to epoch already"
    if loader.iterable:
        return f"{loader.dataset} is read as a stream, in which a worker may keep its place"
    return ""


def _all_reasons(loaders: tuple[Loader, ...]) -> list[str]:
    if not loaders:
        return ["the script reads from no DataLoader"]
    return list(dict.fromkeys(map(_why_not, loaders)))
