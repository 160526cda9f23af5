"""Batches of sequences of similar length, so that little of a batch is padding.

What it does: it takes the order that the script's sampler draws ``batches`` batches at a time (50, at most a
quarter of an epoch). These samples are sorted by length and cut into batches of the same size, which come in
random order. Hugging Face's trainer calls it ``group_by_length``. Each sample comes as often as it was drawn,
a smaller last batch stays as it is, and so does ``len(loader)``. None of the script's random numbers are
drawn: equal seeds give equal batches.

What it costs: the lengths of all samples are read before the first epoch, in a separate process, which takes
as long as one worker process needs for an epoch. A data set for which that takes more than 30 s is left
alone.

When it helps: sequences differ much in length, and batches are padded to their longest, by the script's own
``collate_fn`` or by pad_trim. If all are padded to a fixed length and pad_trim is not on, it does nothing.

When it hurts: it changes the training, so the risk is ``training``. The samples of a batch are no longer
drawn independently: if length correlates with the label, a batch has more of one label, and its gradient is
noisier. A mean over the words of a batch gives the words of short sequences more weight than before. Batch
norm and losses that compare the samples of a batch see different neighbours. So no tune tries it: a tune
would scale steps to batches of one size, and could not tell what it gains or costs. Name it by ``--use``, and
let `hasten verify` compare whole trainings.

Loaders with the script's own batch sampler, and those that read in order or from a stream, are left alone. So
are those of distributed trainings, whose ranks would wait for the one with the longest sequences.

Sources: https://huggingface.co/docs/transformers/main_classes/trainer (group_by_length),
https://arxiv.org/abs/1708.05604
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ...records.facts import Facts
from ...records.observation import Loader, Observation
from ...records.plan import Settings
from ...records.trial import Proof
from ..internals.loaders import reads_indices
from ..samples.dataset_traits import length_of
from ..samples.grouped_batches import Batch, GroupedBatches, Grouping, columns_of, regrouped
from ..samples.loader_override import LoaderOverride
from ..samples.sample_lengths import lengths_of
from ..training import Training
from .base import Technique, conflicting, each_once
from .support.several_ranks import is_one_of_several

if TYPE_CHECKING:
    from torch.utils.data import DataLoader

_TOGETHER = 50  # batches
_MOST_TOGETHER = 1000
_LEAST_BATCHES = 8  # of an epoch
_MOST_SECONDS = 30.0  # for reading lengths
_ALIKE = "samples are of one size in all batches that were seen: none would become smaller"
_LEAST_SEEN = 10  # steps whose batches may show that their samples are of one size
_LEAST_SAVED = 0.05  # of the columns of batches that are padded to their longest


class LengthGrouping(Technique):
    name = "length_grouping"
    summary = "batches are made of sequences of similar length"
    layer = "data"
    risk = "training"
    scope = "process"
    not_tried = (
        "a tune compares steps scaled to one size of batches, and it changes their size: "
        "name it by --use, and let hasten verify judge it"
    )
    conflicts = conflicting(processes="ranks would wait for the one with the longest sequences")

    def __init__(self) -> None:
        self._training: Training | None = None
        self._together = _TOGETHER
        self._home = os.getpid()
        self._groupings: dict[int, tuple[object, Grouping]] = {}  # by data set, which is held with it
        self._why_not: dict[str, None] = {}

    @classmethod
    def refuse(cls, facts: Facts) -> list[str]:
        loaders = facts.observation.training_loaders
        if not loaders:
            return ["the training reads from no DataLoader"]
        reasons = [_why_not(loader) for loader in loaders]
        if all(reasons):
            return each_once(reasons)
        return [_ALIKE] if _of_one_size(facts.observation) else []

    @classmethod
    def options(cls, facts: Facts) -> list[Settings]:
        return [{"batches": _TOGETHER}]

    @classmethod
    def check(cls, settings: Settings) -> None:
        together = settings.get("batches", _TOGETHER)
        whole = isinstance(together, int) and not isinstance(together, bool)
        if not whole or not 2 <= int(together) <= _MOST_TOGETHER:
            raise ValueError(f"batches must be a whole number from 2 to {_MOST_TOGETHER}, found {together!r}")
        if unknown := set(settings) - {"batches"}:
            raise ValueError(f"length_grouping takes batches, found {', '.join(sorted(unknown))}")

    def start(self, training: Training, settings: Settings) -> None:
        self._training = training
        self._together = int(settings.get("batches", _TOGETHER))
        LoaderOverride(training, self._choose)

    def _choose(self, loader: DataLoader[object]) -> Mapping[str, object] | None:
        training = self._training
        if training is None or os.getpid() != self._home or not training.torch.is_grad_enabled():
            return None
        grouping: Grouping | None = None
        try:
            reason = self._reason(training, loader)
            if not reason:
                grouping = self._grouping(training, loader)
                reason = grouping.why_not
        except Exception as error:  # what the script's own objects raise when they are looked at
            reason = f"{type(error).__name__}: {error}"
        if grouping is None or reason:
            self._why_not[reason] = None
            return None
        return {"batch_sampler": GroupedBatches(loader.batch_sampler, grouping)}

    def _reason(self, training: Training, loader: Any) -> str:
        """Why a loader's batches stay as they are, whatever the lengths; "" if they may not."""
        data, name = training.torch.utils.data, type(loader.dataset).__name__
        drawn, sampler = loader.batch_sampler, loader.sampler
        if is_one_of_several(training):
            return "each of several ranks would have batches of another length, and wait for the longest"
        if not reads_indices(loader):
            return f"{name} is read as a stream, without indices"
        if drawn is None:
            return f"torch makes no batches of {name}"
        if type(drawn) is not data.BatchSampler or drawn.sampler is not sampler:
            return f"batches of {name} are made by {type(drawn).__name__}, a sampler of the script's own"
        if isinstance(sampler, data.DistributedSampler):
            return f"{name} is shared out among ranks by a DistributedSampler"
        if type(sampler) not in (data.RandomSampler, data.SubsetRandomSampler):
            return f"{name} is read in the order of {type(sampler).__name__}, which stays as it is"
        if len(drawn) < _LEAST_BATCHES:
            return f"{name} has only {len(drawn)} batches"
        return ""

    def _grouping(self, training: Training, loader: Any) -> Grouping:
        """The grouping of the loader's data set, whose lengths are read the first time."""
        dataset = loader.dataset
        if id(dataset) not in self._groupings:
            began = time.monotonic()
            together = max(2, min(self._together, len(loader.batch_sampler) // 4))
            why_not, lengths = lengths_of(training.torch, dataset, length_of(dataset) or 0, _MOST_SECONDS)
            grouping = Grouping(lengths, together, time.monotonic() - began)
            grouping.why_not = why_not or _of_one_length(dataset, lengths, loader.batch_size, together)
            self._groupings[id(dataset)] = dataset, grouping
        return self._groupings[id(dataset)][1]

    def proof(self, training: Training) -> Proof:
        """Counts the batches that were regrouped, and how much smaller they are than those that were drawn,
        each padded to its longest sequence. If one would contain a sample that was not drawn, or lack one
        that was, the batches stay as they were drawn and there is no proof.
        """
        used = [grouping for _, grouping in self._groupings.values() if grouping.batches]
        batches, read = sum(g.batches for g in used), sum(len(g.lengths) for g in used)
        columns, drawn = sum(g.columns for g in used), max(1, sum(g.columns_drawn for g in used))
        evidence = [
            f"{batches} batches were made of sequences of similar length: padded to their longest, they are "
            f"{columns / drawn:.0%} as large as those that were drawn"
        ]
        if used:
            evidence.append(f"{read} lengths were read in {sum(g.seconds for g in used):.1f} s")
        failed = [grouping.why_not for grouping in used if grouping.why_not]
        evidence += [*failed, *self._why_not]
        return Proof(self.name, batches > 0 and columns < drawn and not failed, "; ".join(evidence))

    @classmethod
    def by_hand(cls, settings: Settings) -> str:
        together = settings.get("batches", _TOGETHER)
        return (
            "lengths = [len(words) for words, label in dataset]  # once\n"
            "\n"
            "def batches_of_like_length():  # each epoch\n"
            f"    for samples in torch.randperm(len(dataset)).split({together} * BATCH_SIZE):\n"
            "        samples = sorted(samples.tolist(), key=lengths.__getitem__)\n"
            "        batches = [samples[i : i + BATCH_SIZE] for i in range(0, len(samples), BATCH_SIZE)]\n"
            "        random.shuffle(batches)\n"
            "        yield from batches\n"
            "\n"
            "loader = DataLoader(dataset, batch_sampler=list(batches_of_like_length()), collate_fn=padded)"
        )


def _of_one_length(dataset: object, lengths: Sequence[int], size: int, together: int) -> str:
    """Why grouping would save nothing, tried on one random order; "" if it would."""
    order = list(range(len(lengths)))
    random.Random(0).shuffle(order)
    drawn: list[Batch] = [order[start : start + size] for start in range(0, len(order), size)]
    made = [
        batch
        for start in range(0, len(drawn), together)
        for batch in regrouped(drawn[start : start + together], lengths)
    ]
    saved = 1 - columns_of(made, lengths) / max(1, columns_of(drawn, lengths))
    if saved >= _LEAST_SAVED:
        return ""
    return f"the sequences of {type(dataset).__name__} are about equally long: {saved:.0%} could be saved"


def _of_one_size(seen: Observation) -> bool:
    """Whether the watched batches have the same number of elements for each sample, and none is padding."""
    sizes = [step.elements / step.samples for step in seen.steps if step.elements and step.samples]
    return len(sizes) >= _LEAST_SEEN and len(set(sizes)) == 1 and seen.padding == 0.0


def _why_not(loader: Loader) -> str:
    if loader.iterable or loader.samples is None:
        return f"{loader.dataset} is read as a stream, without indices"
    if loader.batch_size is None:
        return f"batches of {loader.dataset} are made by a sampler of the script's own"
    if loader.samples < _LEAST_BATCHES * loader.batch_size:
        return f"{loader.dataset} has fewer than {_LEAST_BATCHES} batches"
    return ""
