"""In a rehearsal: which loaders gave the batches that the first step trains on."""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...records.ranks import LoaderKey
from ..observing.batches import tensors_in
from .slicing import key_of, memory_of, reads_the_same, seen_in

if TYPE_CHECKING:
    from torch import Tensor

    from ..internals.loaders import LoaderIterator


@dataclass
class _Batch:
    key: LoaderKey
    iterator: weakref.ref[LoaderIterator]
    tensors: list[weakref.ref[Tensor]]
    evaluates: bool

    def is_in(self, places: set[int]) -> bool:
        return any(memory_of(tensor) in places for ref in self.tensors if (tensor := ref()) is not None)


@dataclass(frozen=True)
class Made:
    """A batch whose samples were made: by which loader, whether for what seems to be an evaluation, and a
    digest of them.
    """

    key: LoaderKey
    evaluates: bool
    digest: str

    def of(self, loader: LoaderKey, in_eval: bool) -> bool:
        """Whether ranks that train on ``loader`` cut it."""
        return reads_the_same(loader, self.key) and (in_eval or not self.evaluates)


class TrainedLoaders:
    """A loader of which the script only looked at a batch before it trains does not count: its iterator is
    gone when the first forward pass begins that records gradients, and no such pass gets its batch. Nor does
    one that seems to be read for an evaluation, if there are others.
    """

    def __init__(self) -> None:
        self._came: list[_Batch] = []
        self._looked_at: list[_Batch] = []
        self._begun = False  # a forward pass that records gradients

    def batch_came(self, batch: object, iterator: LoaderIterator, evaluates: bool) -> None:
        """``evaluates``: this pass seems to be for an evaluation."""
        self._came.append(_Batch(key_of(iterator), weakref.ref(iterator), seen_in(batch), evaluates))

    def forward_begins(self, inputs: object, in_eval: bool) -> None:
        """Gradients are recorded. ``in_eval``: all modules are in eval mode."""
        places = {memory_of(tensor) for tensor in tensors_in(inputs) if tensor.numel()}
        if in_eval:
            for one in self._came:
                one.evaluates |= one.is_in(places)
            return
        if not self._begun:
            self._begun = True
            here = [one for one in self._came if one.iterator() is not None or one.is_in(places)]
            if here:
                self._looked_at = [one for one in self._came if one not in here]
                self._came = here
        for one in [one for one in self._looked_at if one.is_in(places)]:
            self._looked_at.remove(one)
            self._came.append(one)

    def _counting(self) -> list[_Batch]:
        return [one for one in self._came if not one.evaluates] or self._came

    @property
    def key(self) -> LoaderKey | None:
        """Of the one that the first step trains on; None without any."""
        return next((one.key for one in self._counting()), None)

    @property
    def as_in_evaluations(self) -> bool:
        """Whether it was read like one for an evaluation."""
        return any(one.evaluates for one in self._counting())

    def unfit(self) -> str:
        """Why its batches cannot be sliced; "" if they can."""
        if not self._came:
            return (
                "its training batches come from no DataLoader that takes samples by their indices (a stream, "
                "or batches made by hand), so they cannot be sliced"
            )
        keys = dict.fromkeys(one.key for one in self._counting())
        names = " and ".join(dict.fromkeys(key.dataset for key in keys))
        several = f"one step trains on batches of several loaders ({names}): only one can be sliced"
        return several if len(keys) > 1 else ""
