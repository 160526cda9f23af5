"""Batches of an evaluation, kept in memory after the loader's own processes made them once.

They are reused only if making them is proven deterministic. While they are made, no random number may be
drawn, and the script's own code may not meet an error, for which it might return something else: all
processes that make them are watched. Then some are made again in a forked child, in which nothing can disturb
the training: they must equal the kept ones byte for byte, the RNG states must not move, and the dataset must
not change. What they are made from (``visible_state``) is compared before every pass, and the proof is
repeated in the 2nd, 4th, 8th pass and so on.
"""

from __future__ import annotations

import copy
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any

from .batch_copies import Copier
from .draws_in_samples import Drawing, MakingWatch
from .fetching import samples_of
from .files_noted import FilesNoted
from .files_read import FileMark
from .loader_override import has_workers
from .output_watch import OutputWatch
from .sampling_proof import drawn_apart, incomparable, same_sample
from .store_counts import Counts
from .visible_state import State, difference, visible_state
from .watched_workers import WatchedStart, why_another
from .worker_starts import can_run_ours

if TYPE_CHECKING:
    from torch.utils.data import DataLoader

_PROVEN_AT_ONCE = 4  # batches made again before the first pass from memory
_PROOF_SECONDS = 2.0  # after which what was made so far decides
_MOST_CHANGES = 2  # data changes between evaluations until a loader is left alone
_MOST_IN_VAIN = 2


class KeptBatches:
    """For similar loaders that read one indexed dataset in order. ``why_not``: why they are not reused; ""
    until that is known, and ``tell`` gets it. ``room``: whether this many more bytes may be kept.
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
        self._watch: MakingWatch | None = None  # if this process makes them
        self._told: Counts | None = None  # from workers, which may stay for other passes
        self._state: State = {}
        self._files = FilesNoted()
        self._whole = False  # one pass was kept completely
        self._given = 0  # passes from memory
        self._changes = 0
        self._in_vain = 0  # passes that were kept but not read to their end
        self._size = loader.batch_size or 0
        self._name = type(loader.dataset).__name__
        self._dataset = id(loader.dataset)

    def is_of(self, dataset: object) -> bool:
        return id(dataset) == self._dataset

    # ---- keeping
    def begin(self, loader: DataLoader[object]) -> None:
        """A pass begins whose batches will be kept."""
        self._in_vain += 1
        if self._in_vain > _MOST_IN_VAIN:
            self.give_up(f"{self._name} is not read to its end")
            return
        self.forget()
        self._state = state_of(loader)
        if not loader.num_workers:
            self._watch = MakingWatch(self._torch, loader.dataset)
        elif self._told is None:
            self._watch_workers(loader)

    def _watch_workers(self, loader: DataLoader[object]) -> None:
        if sys.platform != "linux" or has_workers(loader) or not can_run_ours(loader):
            self.give_up(f"the processes that read {self._name} cannot be watched")
        else:
            self._told = Counts()

    def watched_start(self, loader: DataLoader[object]) -> WatchedStart | None:
        """Replaces its ``worker_init_fn`` while the pass starts its workers."""
        return None if self._told is None else WatchedStart(loader.worker_init_fn, self._told)

    def made(self, make: Callable[[], object]) -> object:
        """Returns ``make``'s result: a batch to keep."""
        watch = self._watch
        if watch is None:
            return make()
        watch.begin()
        try:
            with self._files.noting():
                return make()
        finally:
            why = why_another(self._name, watch.end())
            if why:
                self.give_up(why)

    def add(self, batch: object) -> None:
        """The next batch of the pass; a copy is kept."""
        if self.why_not:
            return
        if kind := incomparable(batch):
            self.give_up(f"batches of {self._name} hold {kind} objects, which cannot be compared")
            return
        copier = Copier(self._torch, batch)
        if copier.elsewhere:
            self.give_up(f"batches of {self._name} are on {copier.elsewhere} already")
        elif not self._room(copier.nbytes):
            self.give_up(f"there is no room for all batches of {self._name}")
        else:
            self.nbytes += copier.nbytes
            with self._torch.inference_mode(False):  # an inference tensor stays one for ever
                self._batches.append(copier.copied())

    def end(self, batches: int) -> None:
        """The pass has ended, after this many batches."""
        if self._told is not None and self._told.given_up:
            self.give_up(self._told.given_up)
        self._stop_watching()
        self._whole = bool(self._batches) and len(self._batches) == batches
        self._in_vain -= self._whole

    def _stop_watching(self) -> None:
        if self._watch is not None:
            self._watch.close()
        self._watch = None

    def forget(self) -> None:
        """Free the kept batches; later passes may be kept again."""
        self._stop_watching()
        self._files.clear()
        self._batches, self._whole, self.nbytes, self._given = [], False, 0, 0

    def give_up(self, why: str) -> None:
        """Keep nothing from now on, for the reason ``why``."""
        self.why_not = why
        self._tell(why)
        self.forget()

    # ---- reusing
    def may_be_given(self, loader: DataLoader[object]) -> bool:
        """Whether the pass that begins now may come from memory."""
        if self.why_not or not self._whole:
            return False
        changed = difference(self._state, state_of(loader)) or self._files.changed()
        if changed:
            self._changes += 1
            self.forget()
            if self._changes > _MOST_CHANGES:
                self.give_up(f"{changed} changes between evaluations")
            return False
        if self._given & (self._given - 1) == 0:  # before the first, the 2nd, 4th, 8th pass
            positions = self._spread() if not self._given else [self._given % len(self._batches)]
            reason, files = drawn_apart(self._torch, loader.dataset, lambda: self._examine(loader, positions))
            if reason:
                self.give_up(reason)
                return False
            self._files.add(files)  # of batches that workers made, as far as they were made again
        self._given += 1
        return True

    def batch(self, position: int, indices: Sequence[Any]) -> object:
        """A copy of the batch at ``position``, which the script may write to; None if it is not the batch of
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

    def _examine(self, loader: DataLoader[object], positions: list[int]) -> tuple[str, list[FileMark]]:
        """In a separate process: ("", the files read for it) if batches made again equal the kept ones, or
        (why not, none).
        """
        drawing, every = Drawing(self._torch, loader.dataset, apart=True), list(indices_of(loader))
        began, files, output = time.monotonic(), FilesNoted(), OutputWatch()
        for number, position in enumerate(positions):
            if number and time.monotonic() - began > _PROOF_SECONDS:
                break
            with files.noting():
                fresh = loader.collate_fn(samples_of(loader.dataset, every[position]))
            if not same_sample(fresh, self._batches[position]):
                return f"batch {position} of {self._name} differs when it is made again (random?)", []
        if changed := difference(self._state, state_of(loader)):
            return f"making a batch of {self._name} changes {changed}", []
        if drawing.drew:
            return f"making a batch of {self._name} draws random numbers", []
        if output.wrote:
            return f"making a batch of {self._name} prints something, or writes to a file that is open", []
        return "", files.marks


def indices_of(loader: Any) -> Iterator[list[int]]:
    """Indices of each batch of a loader that reads in order."""
    samples, size = len(loader.dataset), int(loader.batch_size)
    for first in range(0, samples, size):
        if first + size <= samples or not loader.drop_last:
            yield list(range(first, min(first + size, samples)))


def state_of(loader: DataLoader[object]) -> State:
    """The state of what a loader's batches are made from."""
    return visible_state(loader.dataset, loader.collate_fn, loader.worker_init_fn)
