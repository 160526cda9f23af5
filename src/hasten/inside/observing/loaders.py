"""The loaders a script reads from, identified by what they read: libraries rebuild their loaders, so neither
the object nor the order identifies them.
"""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from ...records.observation import Loader
from ..internals.loaders import (
    dataset_of,
    indices_of,
    makes_batches,
    reads_indices,
)
from ..living import Living, Reference, reference
from ..samples.dataset_traits import length_of
from ..samples.sampling_proof import prove_deterministic
from ..samples.transform_prefix import has_transforms
from ..training import Training
from .batches import batch_bytes, batch_length, is_mostly_float64
from .data_changes import DataChanges
from .identify import describe_loader

if TYPE_CHECKING:
    from ..internals.loaders import LoaderIterator

_LOOK_SECONDS = 2.0  # for each dataset of a training
_LOOK_AT_OTHERS_SECONDS = 0.5
_NEAR = 8  # forward passes from one step to the next, at most
_SAMPLERS = "torch.utils.data.sampler"
_MAP = 0  # torch.utils.data.dataloader._DatasetKind.Map


_Key = tuple[str, "int | None", "int | None", str, "int | None"]


@dataclass
class _Seen:
    """``refer``: a reference to the data set read last."""

    refer: Reference
    record: Loader
    latest: int = 0  # the number of the pass that read it last, from 1

    @property
    def dataset(self) -> Any:
        """The data set; None once it is gone."""
        return self.refer()


@dataclass(slots=True)
class _Reading:
    """One pass over a loader's data."""

    counts_exactly: bool  # a batch has as many samples as were ordered
    key: _Key | None = None  # of the loader, once a batch came
    trained: bool = False  # one of its batches went into a training step
    waiting: int = 0  # batches that came since one was trained on, before the latest
    trained_after: int = -_NEAR - 1  # forward passes until the last time one of its batches waited alone
    ordered: deque[int] = field(default_factory=deque)  # samples in each batch that has not arrived yet


class Loaders:
    """Notes every loader that gives batches, and which ones feed training steps. ``holds``: data sets stay
    available, even after the script has ended.
    """

    def __init__(self, training: Training, holds: bool = True) -> None:
        self._training = training
        self._holds = holds
        self._seen: dict[_Key, _Seen] = {}
        self.latest: _Reading | None = None  # of the last batch; None once that is known to be trained on
        self.perhaps: _Reading | None = None  # of one that went into a module in evaluation mode
        self._readings: weakref.WeakKeyDictionary[LoaderIterator, _Reading] = weakref.WeakKeyDictionary()
        self._waiting: list[_Reading] = []  # gave batches before the latest, and may be trained on, too
        self._passes = 0  # forward passes in training mode
        self._last: Callable[[], LoaderIterator | None] = lambda: None  # of the last reading
        self._last_reading = _Reading(False)
        self.begun = 0  # passes over any of them that gave a batch
        self.changes = DataChanges() if holds else None  # only what is watched closely has time to look
        self._read_for: Living[int] = Living()  # by data set: how many optimizers had been made then
        self._let_go_for = 0  # the same number when data sets were last released

    def epoch_begins(self, iterator: LoaderIterator) -> None:
        """Forget batches that were ordered in an earlier epoch and never arrived."""
        self._reading(iterator).ordered.clear()

    def batch_ordered(self, iterator: LoaderIterator, indices: object) -> None:
        """The samples with ``indices`` will be one batch; batches come in the order they are asked for."""
        reading = self._last_reading if self._last() is iterator else self._reading(iterator)
        reading.ordered.append(_count(indices))

    def batch_came(self, iterator: LoaderIterator, batch: object) -> int:
        """How many samples the new batch has: as many as were ordered, if that is known.

        Its first dimension need not be the samples: it may be time.
        """
        reading = self._last_reading if self._last() is iterator else self._reading(iterator)
        asked = reading.ordered.popleft() if reading.ordered else 0
        length = asked if asked and reading.counts_exactly else batch_length(batch)
        if reading.key is None:
            reading.key = self._meet(iterator, batch, length)
        if self.latest is not None:
            self._came_before(self.latest)
        self.latest = None if reading.trained else reading
        return length

    def pass_ended(self, iterator: LoaderIterator) -> None:
        """If none of its batches was trained on, they were put into a list, say: what goes into the next
        forward pass need not be the last of them.
        """
        reading = self._readings.get(iterator)
        if reading is None or reading.trained:
            return
        reading.waiting = 0
        self._waiting = [one for one in self._waiting if one is not reading]
        if self.latest is reading:
            self.latest = None

    def _came_before(self, reading: _Reading) -> None:
        if not reading.waiting:
            self._waiting.append(reading)
        reading.waiting += 1

    def _reading(self, iterator: LoaderIterator) -> _Reading:
        reading = self._readings.get(iterator)
        if reading is None:
            exact = reads_indices(iterator) and makes_batches(iterator)
            reading = self._readings[iterator] = _Reading(exact)
        self._last, self._last_reading = weakref.ref(iterator), reading
        return reading

    def _meet(self, iterator: LoaderIterator, batch: object, length: int) -> _Key:
        """Note the loader that gave this, the first batch of a pass."""
        dataset = dataset_of(iterator)
        key = _key_of(iterator)
        seen = self._seen.get(key)
        if seen is None:
            sample_bytes = batch_bytes(batch) // length if length else None
            record = describe_loader(iterator, False, sample_bytes)
            record = replace(record, float64=is_mostly_float64(batch))
            seen = self._seen[key] = _Seen(_nothing, record)
        self.begun += 1
        seen.latest = self.begun
        if self.changes is not None:
            seen.record = self.changes.told(seen.record, dataset)
        seen.refer = (lambda: dataset) if self._holds else reference(dataset)
        made = self._training.optimizers_added
        self._training.datasets.put(dataset, None)
        self._read_for.put(dataset, made)
        if made != self._let_go_for:
            self._let_go(made)
        return key

    def _let_go(self, made: int) -> None:
        """Release data sets that were not read since the latest optimizer was created, from earlier
        trainings: the script may not have memory for both.
        """
        self._let_go_for = made
        read = {id(dataset_of(iterator)) for iterator in self._readings}
        for dataset, then in self._read_for.items():
            if then != made and id(dataset) not in read:
                self._read_for.drop(dataset)
                self._training.datasets.drop(dataset)
                self._training.training_datasets.drop(dataset)
        for seen in self._seen.values():
            if seen.dataset not in self._read_for:
                seen.refer = _nothing

    def batch_went_in(self, training_mode: bool) -> None:
        """The latest batch went into a forward pass that records gradients. ``training_mode``: the module's
        own flag. Without it only a backward pass tells training from an evaluation without ``no_grad``.
        """
        self.perhaps = None if training_mode else self.latest
        self._passes += training_mode
        if training_mode and (self.latest is not None or self._waiting):
            self.batch_trained()

    def backward_begins(self) -> None:
        """What went into a module in evaluation mode was not an evaluation."""
        if self.perhaps is not None:
            self.latest, later = self.perhaps, self.latest
            self.batch_trained()
            if later is not self.perhaps:  # the next batch arrived meanwhile
                self.latest = later
            self.perhaps = None

    def batch_trained(self) -> None:
        """The latest batch is trained on. So are those of loaders read in parallel: they give one each in two
        consecutive steps.
        """
        for reading in self._waiting:
            alone, reading.waiting = reading.waiting == 1, 0
            if alone and self._passes - reading.trained_after <= _NEAR:
                self._is_trained(reading)
            reading.trained_after = self._passes if alone else -_NEAR - 1
        self._waiting.clear()
        if self.latest is not None:
            self._is_trained(self.latest)

    def _is_trained(self, reading: _Reading) -> None:
        if reading.key is None:
            return
        reading.trained = True
        seen = self._seen[reading.key]
        if seen.dataset is None:
            return
        if not seen.record.training:
            seen.record = replace(seen.record, training=True)
        self._training.training_datasets.put(seen.dataset, None)
        if reading is self.latest:
            self.latest = None

    def look_at_sampling(self) -> None:
        """Find out, in a separate process, whether samples are the same each time."""
        for seen in self._seen.values():
            record = seen.record
            if seen.dataset is None:
                continue
            if record.in_memory:
                seen.record = replace(record, random="")
            elif record.random is None and record.default_fetch and record.samples:
                seconds = _LOOK_SECONDS if record.training else _LOOK_AT_OTHERS_SECONDS
                reason, _ = prove_deterministic(self._training.torch, seen.dataset, record.samples, seconds)
                seen.record = replace(record, random=reason, transforms=bool(reason) and _divides(seen))

    def records(self, since: int = 0) -> tuple[Loader, ...]:
        """Records of those read after this many passes."""
        return tuple(seen.record for seen in self._seen.values() if seen.latest > since)


def _key_of(iterator: LoaderIterator) -> _Key:
    """The same for loaders that are made anew for each epoch. Training and validation may share a data set,
    or halves of one, and the size of batches: then they differ in which samples they draw. Only torch's own
    samplers are asked how many: those of a script may do anything to find out.
    """
    dataset, indices = dataset_of(iterator), indices_of(iterator)
    sampler = getattr(indices, "sampler", indices)
    of_torch = type(sampler).__module__ == _SAMPLERS
    return (
        type(dataset).__name__,
        length_of(dataset),
        getattr(indices, "batch_size", None),
        type(sampler).__name__,
        length_of(sampler) if of_torch else None,
    )


def _nothing() -> None:
    """The reference to a released data set."""


def _divides(seen: _Seen) -> bool:
    """Whether its data set has transforms, the first of which may be cached."""
    try:
        return has_transforms(seen.dataset)
    except Exception:  # from the script's own objects
        return False


def _count(indices: object) -> int:
    """How many samples a batch was ordered with; 0 if not a list, tensor or array."""
    if isinstance(indices, (list, tuple)):
        return len(indices)
    shape: Any = getattr(indices, "shape", ())
    return int(shape[0]) if len(shape) == 1 else 0
