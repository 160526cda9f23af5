"""Batches of an evaluation, kept in memory after the loader's own processes made them once.

They are given again only on proof that making them is deterministic. In a forked child, in which nothing can
disturb the training, some are made anew: they must be equal byte for byte to those kept, the random streams
must not move, and the dataset must not change. What they are made of (``visible_state``) is compared before
every pass, and the proof is repeated in the 2nd, 4th, 8th pass and so on.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterator, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any

from ..random_state import fingerprint
from .fetching import samples_of
from .sampling_proof import answered_apart, incomparable, same_sample, sample_nbytes
from .visible_state import State, difference, visible_state

if TYPE_CHECKING:
    from torch.utils.data import DataLoader

_PROVEN_AT_ONCE = 4  # batches made anew before the first pass that is given from memory
_PROOF_SECONDS = 2.0  # after which it is judged by what was made until then
_MOST_CHANGES = 2  # evaluations before which the data had changed, until a loader is left alone
_MOST_IN_VAIN = 2


class KeptBatches:
    """Of one loader, which reads an indexed dataset in order. ``why_not``: why they are not given; "" until
    that is known, and ``tell`` is told. ``room``: whether so many bytes more may be kept.
    """

    def __init__(
        self,
        torch: ModuleType,
        loader: DataLoader[object],
        room: Callable[[int], bool],
        tell: Callable[[str], object],
    ) -> None:
        self._tell = tell
        self.why_not = ""
        self.nbytes = 0
        self._torch = torch
        self._room = room
        self._batches: list[object] = []
        self._state: State = {}
        self._whole = False  # a pass was kept from its first batch to its last
        self._given = 0  # passes from memory
        self._changes = 0
        self._in_vain = 0  # passes that were begun to be kept, and were not read to their end
        self._size = loader.batch_size or 0
        self._name = type(loader.dataset).__name__

    # ---- keeping
    def begin(self, loader: DataLoader[object]) -> None:
        """A pass begins whose batches are to be kept."""
        self._in_vain += 1
        if self._in_vain > _MOST_IN_VAIN:
            self.give_up(f"{self._name} is not read to its end")
            return
        self.forget()
        self._state = state_of(loader)

    def add(self, batch: object) -> None:
        """The next batch of the pass, of which a copy is kept."""
        if self.why_not:
            return
        size = sample_nbytes(batch)
        if kind := incomparable(batch):
            self.give_up(f"batches of {self._name} hold {kind} objects, which cannot be compared")
        elif not self._room(size):
            self.give_up(f"there is no room for all batches of {self._name}")
        else:
            self.nbytes += size
            with self._torch.inference_mode(False):  # a tensor of that mode stays one for ever
                self._batches.append(copy.deepcopy(batch))

    def end(self, batches: int) -> None:
        """The pass has come to its end, after so many batches."""
        self._whole = bool(self._batches) and len(self._batches) == batches
        self._in_vain -= self._whole

    def forget(self) -> None:
        self._batches, self._whole, self.nbytes, self._given = [], False, 0, 0

    def give_up(self, why: str) -> None:
        self.why_not = why
        self._tell(why)
        self.forget()

    # ---- giving
    def may_be_given(self, loader: DataLoader[object]) -> bool:
        """Whether the pass that begins now may be given from memory."""
        if self.why_not or not self._whole:
            return False
        changed = difference(self._state, state_of(loader))
        if changed:
            self._changes += 1
            self.forget()
            if self._changes > _MOST_CHANGES:
                self.give_up(f"{changed} changes between evaluations")
            return False
        if self._given & (self._given - 1) == 0:  # before the first, the 2nd, 4th, 8th pass
            positions = self._spread() if not self._given else [self._given % len(self._batches)]
            reason, _ = answered_apart(self._torch, self._name, lambda: self._examine(loader, positions))
            if reason:
                self.give_up(reason)
                return False
        self._given += 1
        return True

    def batch(self, position: int, indices: Sequence[Any]) -> object:
        """A copy of the batch at ``position``, which the script may write into; None where it is not that of
        these ``indices``.
        """
        first = position * self._size
        if position >= len(self._batches) or list(indices) != list(range(first, first + len(indices))):
            return None
        return copy.deepcopy(self._batches[position])

    def __len__(self) -> int:
        return len(self._batches)

    def _spread(self) -> list[int]:
        """The first, the last, and some between."""
        last = len(self._batches) - 1
        return sorted({last * k // (_PROVEN_AT_ONCE - 1) for k in range(_PROVEN_AT_ONCE)})

    def _examine(self, loader: DataLoader[object], positions: list[int]) -> tuple[str, int]:
        """In a process of its own: ("", 0) where batches made anew are as those kept, else (why not, 0)."""
        streams, every = fingerprint(self._torch), list(indices_of(loader))
        began = time.monotonic()
        for number, position in enumerate(positions):
            if number and time.monotonic() - began > _PROOF_SECONDS:
                break
            fresh = loader.collate_fn(samples_of(loader.dataset, every[position]))
            if not same_sample(fresh, self._batches[position]):
                return f"batch {position} of {self._name} differs when it is made again (random?)", 0
        if fingerprint(self._torch) != streams:
            return f"making a batch of {self._name} draws random numbers", 0
        if changed := difference(self._state, state_of(loader)):
            return f"making a batch of {self._name} changes {changed}", 0
        return "", 0


def indices_of(loader: Any) -> Iterator[list[int]]:
    """Of each batch of a loader that reads in order."""
    samples, size = len(loader.dataset), int(loader.batch_size)
    for first in range(0, samples, size):
        if first + size <= samples or not loader.drop_last:
            yield list(range(first, min(first + size, samples)))


def state_of(loader: DataLoader[object]) -> State:
    return visible_state(loader.dataset, loader.collate_fn, loader.worker_init_fn)
