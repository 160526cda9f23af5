"""The data sets of a training whose pictures become tensors together, each with its proof.

Nothing else holds a data set's contents once the passes over it have ended.
"""

from __future__ import annotations

import weakref
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..internals.loaders import dataset_of
from ..living import Living
from ..training import Training
from .dataset_traits import length_of
from .late_dataset import LateDataset, same_objects
from .late_fetch import HandedProof, LateBatches
from .late_pictures import Gather
from .late_proof import Proven, proven
from .store_counts import Counts

if TYPE_CHECKING:
    from ..internals.loaders import LoaderIterator


@dataclass
class _Found:
    transforms: list[object]  # that were examined ...
    tails: list[object]  # ... and with what they hold
    proof: Proven

    def is_of(self, late: LateDataset) -> bool:
        """Whether it applies to the data set as it is now. Refused transforms stay refused: what they hold
        may change with each sample.
        """
        if self.proof.reason:
            return same_objects(self.transforms, late.transforms)
        return same_objects(self.tails, late.tails)


class LateSets:
    """``reasons``: why data sets are left as they are. ``gather`` as for ``collate``."""

    def __init__(self, training: Training, gather: Gather) -> None:
        self.counts = Counts()
        self.reasons: dict[str, None] = {}
        self._torch = training.torch
        self._gather = gather
        self._found: Living[_Found] = Living()
        self._passes: weakref.WeakKeyDictionary[LoaderIterator, LateBatches] = weakref.WeakKeyDictionary()
        self._slot = self.counts.take()
        self.proven = False  # whether any is, or was

    def opened(self, dataset: Any) -> HandedProof | None:
        """A pass over the data set begins: prove what is not proven yet. Returns what worker processes need;
        None if batches are made as usual.
        """
        try:
            late = LateDataset(self._torch, dataset)
        except Exception as error:  # whatever copying objects of the script's raises, too
            self._found.drop(dataset)
            self.reasons[str(error)] = None
            return None
        found = self._found.get(dataset)
        if found is None or not found.is_of(late):
            proof = proven(self._torch, dataset, length_of(dataset) or 0)
            found = _Found(late.transforms, late.tails, proof)
            self._found.put(dataset, found)
        if found.proof.reason:
            self.reasons[found.proof.reason] = None
            return None
        self.proven = True
        return HandedProof(found.proof, self.counts, self._gather)

    def begun(self, iterator: LoaderIterator) -> None:
        """It, or its workers, read what was opened for it."""
        dataset = dataset_of(iterator)
        found = self._found.get(dataset)
        if found is None or found.proof.reason:
            return
        with suppress(Exception):  # of the script's own objects: it was copied before
            self._passes[iterator] = LateBatches(
                self._torch, dataset, found.proof, self.counts, self._slot, self._gather
            )

    def known(self, dataset: object) -> LateBatches | None:
        """Batches for a data set that is being read."""
        return next((late for late in list(self._passes.values()) if late.dataset is dataset), None)
