"""In a rehearsal: which loaders gave the batches that the first step trains on."""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...records.ranks import LoaderKey
from ..observing.batches import tensors_in
from .slicing import key_of, memory_of, seen_in

if TYPE_CHECKING:
    from torch import Tensor

    from ..internals.loaders import LoaderIterator


@dataclass(frozen=True)
class _Batch:
    key: LoaderKey
    iterator: weakref.ref[LoaderIterator]
    tensors: list[weakref.ref[Tensor]]

    def is_in(self, places: set[int]) -> bool:
        return any(memory_of(tensor) in places for ref in self.tensors if (tensor := ref()) is not None)


class TrainedLoaders:
    """A loader of which the script only looked at a batch before it trains does not count: its iterator is
    gone when the first forward pass begins that records gradients, and no such pass gets its batch.
    """

    def __init__(self) -> None:
        self._came: list[_Batch] = []
        self._looked_at: list[_Batch] = []
        self._begun = False  # a forward pass that records gradients

    def batch_came(self, batch: object, iterator: LoaderIterator) -> None:
        self._came.append(_Batch(key_of(iterator), weakref.ref(iterator), seen_in(batch)))

    def forward_begins(self, inputs: object) -> None:
        """Gradients are recorded."""
        places = {memory_of(tensor) for tensor in tensors_in(inputs) if tensor.numel()}
        if not self._begun:
            self._begun = True
            here = [one for one in self._came if one.iterator() is not None or one.is_in(places)]
            if here:
                self._looked_at = [one for one in self._came if one not in here]
                self._came = here
        for one in [one for one in self._looked_at if one.is_in(places)]:
            self._looked_at.remove(one)
            self._came.append(one)

    @property
    def key(self) -> LoaderKey | None:
        """Of the one that the first step trains on; None without any."""
        return self._came[0].key if self._came else None

    def unfit(self) -> str:
        """Why its batches cannot be sliced; "" if they can."""
        if not self._came:
            return (
                "its training batches come from no DataLoader that takes samples by their indices (a stream, "
                "or batches made by hand), so they cannot be sliced"
            )
        keys = dict.fromkeys(one.key for one in self._came)
        names = " and ".join(dict.fromkeys(key.dataset for key in keys))
        several = f"one step trains on batches of several loaders ({names}): only one can be sliced"
        return several if len(keys) > 1 else ""
