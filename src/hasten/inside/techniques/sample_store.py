"""Keep samples in a file once they are made, for all of a loader's workers, all ranks and later runs.

What it does: forked processes make all samples of the training's data set and write them, as plain bytes, to
a store in the script's folder below ``.hasten``. They do so before the first step or, if the data set was not
seen by then, before its second pass. From then on loaders read samples from there, in worker processes and
without; the kernel's page cache is their shared memory. It needs the same proof as dataset_in_ram, for whole
samples or up to the first random transform. Kept samples are verified again as they are used: some before
each run, some in each pass, and the size and time of every file that a sample was made from whenever it is
read. A different script, module, argument, version or data set has a different store. So have different
globals and environment variables that its code names. torch's Subsets and random_split share the store of
what they choose from. In a trial the store is among the trials' own files, is shared by all of them, and is
deleted with them: what is kept for later runs comes from `hasten run`.

When it helps: making samples takes long, and there is more than one pass, process or run. When it hurts: the
disk is slower than making samples; the first run makes the samples before it trains, which takes up to one
pass, or 300 seconds (60 in a trial): missing ones are then made as usual, and later runs continue. A store
has at most a fifth of its disk's free space (setting ``disk_share``), and four fifths of free memory.

A tune tries it if loaders have worker processes, or if the samples do not fit into the training's own memory:
otherwise dataset_in_ram does the same without a disk, and one of the two is enough. It is not tried if making
all samples would take longer than three minutes. The time to make them is written into the store, whichever
process of a tune made them, and reported as set-up of the first run, which must earn it back: later runs only
read.

A sample is made again each time if making it draws random numbers, or if the script's own code meets an error
in it and may return something else. Samples that come over a network are not kept, nor are those of loaders
whose workers are not forked, unless hasten can be imported there. Samples from files that a library or
another program reads without Python are kept for one run only, because their changes cannot be detected. Of a
script that creates a different data set in each run, only a few stores are kept.

Sources: https://docs.pytorch.org/docs/stable/data.html#map-style-datasets, flock(2), proc(5)
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from ...records.facts import Facts
from ...records.machine import Machine
from ...records.observation import Loader
from ...records.phases import median_phases, samples_per_step, step_seconds
from ...records.plan import Settings
from ...records.trial import Proof
from ..internals.loaders import WORKER_LOOP, makes_batches, reads_indices, worker_module
from ..living import Living
from ..samples.dataset_traits import length_of
from ..samples.filling import MOST_CHILDREN
from ..samples.own_objects import own_objects
from ..samples.rows import rows_of
from ..samples.sample_caches import not_worth_keeping
from ..samples.sample_room import too_large
from ..samples.sample_stores import MEMORY_SHARE, SampleStores
from ..samples.served import Served
from ..samples.worker_entry import WorkerEntry
from ..samples.worker_starts import can_run_ours
from ..seams import Call
from ..training import NotApplicable, Training
from .base import Technique, conflicting, each_once
from .dataset_in_ram import DatasetInRam
from .support.input_waits import hardly_waits

if TYPE_CHECKING:
    from torch.utils.data import DataLoader

    from ..internals.loaders import LoaderIterator

_DISK_SHARE = 0.2  # of what is free
_MOST_SECONDS = 180.0  # of making samples: the workers of three trials may do so one after another
_IN_RAM = (
    "there is room for its samples in memory, where dataset_in_ram keeps them: name it by --use to keep them "
    "for later runs, too"
)


class SampleStore(Technique):
    name = "sample_store"
    summary = "samples are kept in a file that all processes and later runs read"
    layer = "data"
    risk = "exact"
    scope = "process"
    phases = ("data",)
    conflicts = conflicting(
        dataset_in_ram="each of them takes the place of the data set",
        batched_fetch="each of them takes the place of the data set",
    )

    def __init__(self) -> None:
        self._stores: SampleStores | None = None
        self._home = os.getpid()
        self._left_alone: dict[str, None] = {}
        self._own: Living[str] = Living()  # of a data set: why copies cannot stand for its samples, or ""
        self._in_steps = 0.0  # seconds of making samples, while steps were taken

    @classmethod
    def refuse_machine(cls, machine: Machine) -> list[str]:
        return [] if machine.system == "Linux" else [f"it is not made for {machine.system}"]

    @classmethod
    def refuse(cls, facts: Facts) -> list[str]:
        reasons, loaders = cls.refuse_machine(facts.machine), facts.observation.training_loaders
        if not loaders:
            return [*reasons, "the training reads from no DataLoader"]
        available = facts.machine.available_bytes
        reasons += hardly_waits(facts)
        reasons += each_once(_why_not(loader, available) for loader in loaders)
        seconds = _seconds_to_make(facts, loaders)
        if seconds > _MOST_SECONDS:
            reasons.append(f"making all samples once takes about {seconds:.0f} s: name it by --use")
        if not (reasons or DatasetInRam.refuse(facts)):
            reasons.append(_IN_RAM)
        return reasons

    @classmethod
    def check(cls, settings: Settings) -> None:
        share = settings.get("disk_share", _DISK_SHARE)
        number = isinstance(share, (int, float)) and not isinstance(share, bool)
        if not set(settings) <= {"disk_share"} or not number or not 0 < float(share) <= 1:
            raise ValueError(
                "sample_store may have disk_share, a number above 0 and up to 1, and nothing else"
            )

    def start(self, training: Training, settings: Settings) -> None:
        if not training.sample_folder:
            raise NotApplicable("there is no folder of the script's that samples can be kept in")
        with suppress(FileExistsError):
            os.mkdir(training.sample_folder, 0o700)
        stores = self._stores = SampleStores(training, float(settings.get("disk_share", _DISK_SHARE)))
        torch = training.torch
        entries: list[WorkerEntry] = []

        def entering(original: Call) -> WorkerEntry:
            entries.append(WorkerEntry(original))
            return entries[0]

        def around_iter(original: Callable[..., LoaderIterator]) -> Call:
            def __iter__(loader: DataLoader[object]) -> LoaderIterator:
                if os.getpid() != self._home or not torch.is_grad_enabled():
                    return original(loader)
                served = self._opened(stores, loader, training)
                entries[0].handed = served.handed() if served is not None else None
                try:
                    return original(loader)
                finally:
                    entries[0].handed = None

            return __iter__

        from torch.utils.data import DataLoader

        training.seams.replace(worker_module(), WORKER_LOOP, entering)
        training.seams.replace(DataLoader, "__iter__", around_iter)
        default_collate = torch.utils.data.default_collate

        def provide(dataset: object, indices: Sequence[Any], collate: Call) -> list[object] | None:
            served = stores.known(dataset) if os.getpid() == self._home else None
            wanted = rows_of(torch, dataset).places(indices) if served is not None else None
            if served is None or wanted is None or self._why_no_copies(training, dataset, collate):
                return None
            # default_collate copies samples into the batch; another function may write into what it gets
            return served.reader.samples(wanted, copied=collate is not default_collate)

        training.fetch_providers[self.name] = provide

    def _opened(self, stores: SampleStores, loader: DataLoader[object], training: Training) -> Served | None:
        """The store to read a loader's samples from in the pass that begins."""
        try:
            reason = _why_left_alone(loader) or self._why_no_copies(
                training, loader.dataset, loader.collate_fn
            )
            served = None if reason else stores.opened(loader.dataset)
            if served is not None and loader.dataset in training.training_datasets:
                before = served.paid
                stores.fill(served, loader.dataset)
                self._in_steps += served.paid - before
                served = stores.known(loader.dataset)
        except Exception as error:  # what the script's own objects raise when they are looked at
            reason, served = f"{type(error).__name__}: {error}", None
        if reason:
            self._left_alone[reason] = None
        return served

    def _why_no_copies(self, training: Training, dataset: Any, collate: Call) -> str:
        """Why copies cannot stand for the samples of which ``collate`` makes a batch; "" if they can."""
        torch = training.torch
        if collate is torch.utils.data.default_collate:
            return ""
        if dataset not in self._own:
            self._own.put(dataset, own_objects(torch, dataset, length_of(dataset) or 0))
        return self._own.get(dataset) or ""

    def install(self, training: Training, settings: Settings) -> None:
        assert self._stores is not None
        served = self._stores.served
        if not served and (reasons := [*self._stores.reasons, *self._left_alone]):
            raise NotApplicable("; ".join(reasons))
        self._stores.tally.begin(served)

    def prepare(self, training: Training) -> None:
        assert self._stores is not None
        for dataset in training.training_datasets:
            served = self._stores.known(dataset)
            if served is not None:
                self._stores.fill(served, dataset)

    def seconds_in_steps(self) -> float:
        return self._in_steps

    def proof(self, training: Training) -> Proof:
        """Counts the samples that came from a store, in all processes; those that were made; and those from a
        store that were made anyway and compared. A store that was given up does not count.
        """
        assert self._stores is not None
        served, tally = self._stores.served, self._stores.tally
        hits, made, checked = tally.counted(served)
        given_up = [why for one in served if (why := one.stale or one.counts.given_up)]
        evidence = [
            f"{hits} samples came from a store, {made} were made; {checked} were compared with new ones"
        ]
        evidence += [f"it lies in {one.store.path}" for one in served]
        evidence += [*given_up, *filter(None, (one.remark for one in served)), *self._left_alone]
        seconds = tally.seconds(served)
        return Proof(
            self.name,
            hits > 0 and not given_up,
            "; ".join(evidence),
            f"samples are made once, {seconds:.1f} s; later runs read them" if seconds else "",
            lasting_seconds=seconds,
            paid_seconds=tally.paid(served),
        )

    @classmethod
    def by_hand(cls, settings: Settings) -> str:
        return (
            "shape = (len(dataset), 3, 224, 224)\n"
            "kept = numpy.lib.format.open_memmap('samples.npy', 'w+', numpy.float32, shape)\n"
            "for i in range(len(dataset)):  # once\n"
            "    kept[i] = dataset[i][0]\n"
            "\n"
            "class Kept(torch.utils.data.Dataset):  # in all processes and later runs\n"
            "    def __getitem__(self, i):\n"
            "        return torch.from_numpy(numpy.load('samples.npy', mmap_mode='r')[i].copy()), labels[i]"
        )


def _seconds_to_make(facts: Facts, loaders: Sequence[Loader]) -> float:
    """Seconds to make all samples, by as many processes as fill a store. If steps wait for worker processes,
    these make samples all the time. 0 if the steps do not show it.
    """
    seen, cpus = facts.observation, facts.machine.usable_cpus
    each, workers = samples_per_step(seen), max(loader.workers for loader in loaders)
    if not each:
        return 0.0
    making = min(workers, cpus) * step_seconds(seen) if workers else median_phases(seen)["data"]
    return making / each * sum(loader.samples or 0 for loader in loaders) / min(cpus, MOST_CHILDREN)


def _why_not(loader: Loader, available_bytes: int) -> str:
    if reason := not_worth_keeping(loader):
        return reason
    if loader.in_memory:
        return f"{loader.dataset} holds its samples in memory already"
    needed = (loader.samples or 0) * (loader.sample_bytes or 0)
    return too_large(loader.dataset, needed, available_bytes, MEMORY_SHARE)


def _why_left_alone(loader: DataLoader[Any]) -> str:
    """Why this loader's samples are not to be kept, whatever its data set is; "" if they may be."""
    name = type(loader.dataset).__name__
    if not reads_indices(loader):
        return f"{name} is read as a stream"
    if not makes_batches(loader):
        return f"{name} is not read sample by sample"
    if loader.num_workers and not can_run_ours(loader):
        return f"{name} is read by processes that are started anew, which cannot import hasten"
    return ""
