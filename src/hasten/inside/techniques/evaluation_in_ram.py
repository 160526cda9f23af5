"""Keep the batches of an evaluation in memory once they are made.

What it does: a loader that is read in order gives the same batches in every evaluation, recognised by
disabled gradients or by the model's eval mode. After the first evaluation they come from memory, if making
them is proven deterministic (``kept_batches``); no worker processes are started for them. They belong to the
data set: a function that evaluates may create a new loader for it each time. Their order, size and content
stay; so does what the main process draws. If random numbers are drawn for a batch, or the script's own code
meets an error in making one, batches are made again in every evaluation; so are those on a GPU. When it
helps: making samples takes a good part of an evaluation, or evaluations are short and starting workers
counts. When it hurts: memory is short, as batches take more of it than the files they were made from.

What other techniques do in an evaluation: dataset_in_ram and batched_fetch serve every loader without
workers, and batched_to_tensor those of pictures, evaluations too, except those whose batches are kept here: a
whole batch takes less memory than its samples. Batches from sample_store are made from the samples in its
store. Loaders that ranks share are left alone. channels_last, threads, malloc and precisions that are flags
of the process (tf32, matmul_precision) hold in evaluations as in training. bf16, fp16, compile and
loader_workers leave passes without gradients alone; evaluation_bf16 is for these.

Source: https://docs.pytorch.org/docs/stable/data.html#map-style-datasets
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from ...records.facts import Facts
from ...records.observation import Loader
from ...records.plan import Settings
from ...records.trial import Proof
from ..internals.loaders import NEXT_DATA, batches_given, iterators_that_fetch, reads_indices
from ..living import Living, can_go
from ..observing.uses import MAKES_LOADERS, RECORDS_EVALUATIONS
from ..samples.fetching import samples_of
from ..samples.kept_batches import KeptBatches
from ..samples.loader_override import LoaderOverride, context_of, lets_workers_stay, workers
from ..samples.sample_caches import PYTHON_BYTES
from ..samples.sample_room import too_large
from ..seams import Call
from ..training import Training
from .base import Technique, conflicting, each_once, saw_evaluation

if TYPE_CHECKING:
    from torch.utils.data import DataLoader

    from ..internals.loaders import LoaderIterator

MEMORY_SHARE = 0.2  # of what is available, for all evaluations
_NEVER_AGAIN = "no evaluation read a data set that an earlier one had read to its end"
_NEVER = "no evaluation read a data set from its first sample to its last"
_STORE = "sample_store"  # batches made of its samples are kept, too
# these leave a loader alone whose whole batches are kept
_STAND_BACK = {"dataset_in_ram", "batched_fetch", "batched_to_tensor"}
_Options = tuple[object, ...]


class EvaluationInRam(Technique):
    name = "evaluation_in_ram"
    summary = "the batches of an evaluation are kept in memory after they were made once"
    layer = "data"
    risk = "exact"
    scope = "process"
    restarts = True
    parts = ("evaluation",)
    from_second = True
    conflicts = conflicting(processes="ranks share the batches of an evaluation among them")

    def __init__(self) -> None:
        self._training: Training | None = None
        self._every: Living[dict[_Options, KeptBatches]] = Living()  # by what the batches belong to
        self._keeping: weakref.WeakKeyDictionary[LoaderIterator, KeptBatches] = weakref.WeakKeyDictionary()
        self._giving: weakref.WeakKeyDictionary[LoaderIterator, KeptBatches] = weakref.WeakKeyDictionary()
        self._given: KeptBatches | None = None  # for the pass that begins now: its batches come from these
        self._kept: KeptBatches | None = None  # for the pass that begins now: its batches go into these
        self._making: KeptBatches | None = None  # where the batch goes that is being made
        self._wanted: tuple[KeptBatches, int] | None = None  # where the requested batch is
        self._why_not: dict[str, None] = {}  # of all loaders, also those that are gone
        self._passes = 0  # whose batches were to be kept
        self._batches = 0
        self._home = os.getpid()

    @classmethod
    def refuse(cls, facts: Facts) -> list[str]:
        loaders = [loader for loader in facts.observation.loaders if not loader.training]
        if not loaders:
            if facts.observation.run is None:
                return ["it is not known how the script evaluates"]
            if RECORDS_EVALUATIONS in facts.observation.uses:
                return ["its evaluation records gradients, as a training does: name it by --use"]
            if facts.observation.steps and MAKES_LOADERS not in facts.observation.uses:
                return ["the script has made no DataLoader"]
            seen = saw_evaluation(facts)
            return ["its evaluation reads from no DataLoader of its own"] if seen else []
        reasons = [_why_not(loader, facts.machine.available_bytes) for loader in loaders]
        return each_once(reasons) if all(reasons) else []

    def start(self, training: Training, settings: Settings) -> None:
        self._training = training
        from torch.utils.data import DataLoader

        others = dict(training.batch_providers)
        training.batch_providers.clear()
        training.batch_providers.update({self.name: self._provide, **others})  # asked before them
        LoaderOverride(training, self._choose)
        training.seams.replace(DataLoader, "__iter__", self._around_iter)
        for kind in iterators_that_fetch():
            training.seams.replace(kind, NEXT_DATA, self._around_data)

    # ---- a pass begins
    def _around_iter(self, original: Callable[..., LoaderIterator]) -> Call:
        def __iter__(loader: DataLoader[object]) -> LoaderIterator:
            kept = self._kept_of(loader)
            if kept is None:
                return original(loader)
            if not _safely(kept, kept.may_be_given, loader):
                _safely(kept, kept.begin, loader)
                self._passes += 1
                self._kept = kept
                try:
                    iterator = original(loader)
                finally:
                    self._kept = None
                self._keeping[iterator] = kept
                return iterator
            self._given = kept
            try:
                with _drawing_nothing(loader):
                    iterator = original(loader)
            finally:
                self._given = None
            self._giving[iterator] = kept
            return iterator

        return __iter__

    def _kept_of(self, loader: DataLoader[object]) -> KeptBatches | None:
        """The kept batches of the loader, if it is an evaluation's and its batches may be kept."""
        training = self._training
        if training is None or os.getpid() != self._home or self.name not in training.batch_providers:
            return None
        if training.torch.is_grad_enabled() and not training.in_eval():
            return None
        if not _reads_in_order(training, loader):
            return None
        owner, options = _owner_of(loader), _options_of(loader)
        of_owner = self._every.get(owner)
        if of_owner is None:
            self._every.put(owner, of_owner := {})
        kept = of_owner.get(options)
        if kept is None:
            tell = self._why_not.setdefault
            kept = of_owner[options] = KeptBatches(training.torch, loader, self._has_room, tell)
        others = {*training.batch_providers, *training.fetch_providers} - {self.name, _STORE, *_STAND_BACK}
        if others and not loader.num_workers:
            return None  # another technique serves it
        return None if kept.why_not else kept

    def _has_room(self, nbytes: int) -> bool:
        assert self._training is not None
        return self._held() + nbytes <= MEMORY_SHARE * self._training.available_bytes

    def _held(self) -> int:
        """Bytes of all kept batches."""
        return sum(kept.nbytes for of_owner in self._every.values() for kept in of_owner.values())

    def _choose(self, loader: DataLoader[object]) -> Mapping[str, object] | None:
        if not loader.num_workers:
            return None
        if self._given is None:
            start = self._kept.watched_start(loader) if self._kept is not None else None
            return None if start is None else {"worker_init_fn": start}
        return {**workers(0, 0, False, None), "timeout": 0}

    # ---- a batch is asked for
    def _around_data(self, original: Call) -> Call:
        def _next_data(iterator: LoaderIterator) -> object:
            given, kept = self._giving.get(iterator), self._keeping.get(iterator)
            if given is not None:
                self._wanted = given, batches_given(iterator)
                try:
                    return original(iterator)
                finally:
                    self._wanted = None
            if kept is None:
                return original(iterator)
            self._making = kept
            try:
                batch = kept.made(partial(original, iterator))
            except StopIteration:
                kept.end(batches_given(iterator))
                raise
            finally:
                self._making = None
            if batches_given(iterator) == len(kept):
                _safely(kept, kept.add, batch)
            return batch

        return _next_data

    def _provide(self, dataset: object, indices: Sequence[Any], collate: Call) -> object:
        if self._making is not None and self._making.is_of(dataset):
            assert self._training is not None
            stored = _STORE in self._training.fetch_providers
            return None if stored else collate(samples_of(dataset, indices))
        if self._wanted is None:
            return None
        kept, position = self._wanted
        batch = kept.batch(position, indices)
        self._batches += batch is not None
        return batch

    def proof(self, training: Training) -> Proof:
        """Counts the batches that were given from memory."""
        held = self._held() / 2**20
        evidence = f"{self._batches} batches of evaluations came from memory, where {held:.1f} MiB are kept"
        why_not = self._why_not or ([] if self._batches else [_NEVER_AGAIN if self._passes else _NEVER])
        return Proof(self.name, self._batches > 0, "; ".join([evidence, *why_not]))

    @classmethod
    def by_hand(cls, settings: Settings) -> str:
        return (
            "batches = list(evaluation_loader)  # once, before the first epoch\n"
            "\n"
            "for inputs, targets in batches:  # in every evaluation"
        )


def _safely(kept: KeptBatches, act: Callable[[Any], object], what: object) -> object:
    """``act(what)``. If the script's own objects raise when they are examined, nothing of them is kept."""
    try:
        return act(what)
    except Exception as error:
        kept.give_up(f"{type(error).__name__}: {error}")
        return None


def _owner_of(loader: DataLoader[object]) -> object:
    """What batches belong to: the data set. But the loader, if the data set cannot be referenced weakly (it
    would never be freed), or if the loader's workers stay (they are its own).
    """
    dataset: object = loader.dataset
    return loader if loader.persistent_workers or not can_go(dataset) else dataset


def _options_of(loader: DataLoader[object]) -> _Options:
    """What makes loaders give the same batches. A function with the same code may be created again."""
    collate = loader.collate_fn
    made_by = getattr(collate, "__code__", type(collate))
    return loader.batch_size, loader.drop_last, loader.num_workers, context_of(loader), made_by


def _reads_in_order(training: Training, loader: DataLoader[object]) -> bool:
    """Whether it reads an indexed dataset from its first sample to its last by torch's own samplers."""
    data = training.torch.utils.data
    sampler: Any = loader.sampler
    batches: Any = loader.batch_sampler
    return bool(
        reads_indices(loader)
        and not isinstance(loader.dataset, getattr(data, "MapDataPipe", ()))
        and type(sampler) is data.SequentialSampler
        and sampler.data_source is loader.dataset
        and type(batches) is data.BatchSampler
        and batches.sampler is sampler
        and batches.batch_size == loader.batch_size
        and batches.drop_last == loader.drop_last
        and getattr(loader, "in_order", True)
    )


@contextmanager
def _drawing_nothing(loader: DataLoader[object]) -> Iterator[None]:
    """Within, nothing is drawn if the script lets workers stay: these are seeded once, when they start."""
    import torch

    if not lets_workers_stay(loader):
        yield
        return
    generator = loader.generator if loader.generator is not None else torch.default_generator
    before = generator.get_state()
    yield
    generator.set_state(before)


def _why_not(loader: Loader, available_bytes: int) -> str:
    if loader.iterable or loader.samples is None:
        return f"{loader.dataset} is read as a stream, without indices"
    if loader.random:
        return loader.random
    needed = loader.samples * ((loader.sample_bytes or 0) + PYTHON_BYTES)
    return too_large(loader.dataset, needed, available_bytes, MEMORY_SHARE)
