"""Worker processes of a loader that has none without us, so that a script does not notice them.

A batch is as the training process would have made it: its tensors are in memory of this process
(``private_tensors``). The sampler is first asked when the first batch is wanted. A batch that a worker could
not make is made here: what that raises is what the script expects. If a worker has ended, or what it sent
cannot be received, all that are left are made here.

Workers read files at offsets of their own: a fork shares those of files that are open.
"""

from __future__ import annotations

import functools
import os
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from ..internals.loaders import (
    NEXT_DATA,
    WORKER_LOOP,
    ask_ahead,
    ask_later,
    end_workers,
    iterators_that_fetch,
    made_here,
    pass_of,
    worker_module,
    worker_processes,
)
from ..process.own_offsets import open_files_anew
from ..seams import Call
from ..training import Training
from .fetching import Fetcher
from .private_tensors import PrivateTensors
from .sampler_passes import Asked
from .worker_entry import DATASET, data_set_of, fetch_by

if TYPE_CHECKING:
    from ..internals.loaders import LoaderIterator

_NAME = "added workers"  # in Training.kept
_COULD_NOT = "hasten: a batch could not be made in process"


class AddedWorkers:
    """For all loaders of a training."""

    def __init__(self, training: Training) -> None:
        self._starts = False
        self._later: weakref.WeakSet[LoaderIterator] = weakref.WeakSet()  # whose pass has not begun
        self._tensors = PrivateTensors(training.torch, training.seams)
        training.seams.replace(worker_module(), WORKER_LOOP, self._around_loop)
        training.seams.replace(iterators_that_fetch()[1], NEXT_DATA, self._around_next)
        training.seams.on_undo(self._begin_all)
        training.kept[_NAME] = self

    @classmethod
    def of(cls, training: Training) -> AddedWorkers | None:
        """The instance of this training; None if no technique adds workers."""
        found = training.kept.get(_NAME)
        return found if isinstance(found, cls) else None

    # ---- in the training process
    @contextmanager
    def starting(self) -> Iterator[None]:
        """Workers that are started within are added ones."""
        self._starts = True
        try:
            yield
        finally:
            self._starts = False

    def noted(self, iterator: LoaderIterator, indices: Iterator[object], ahead: int) -> Asked:
        """The pass that begins now over these indices. Each worker will make ``ahead`` batches ahead."""
        ask_later(iterator)
        self._later.add(iterator)
        return Asked(indices, ahead)

    def _begin(self, iterator: LoaderIterator) -> None:
        asked = pass_of(iterator)
        if iterator in self._later and isinstance(asked, Asked):
            self._later.discard(iterator)
            ask_ahead(iterator, asked.ahead)

    def _begin_all(self) -> None:
        """Without us nothing begins later."""
        for iterator in list(self._later):
            self._begin(iterator)

    def _around_next(self, original: Call) -> Call:
        def _next_data(iterator: LoaderIterator) -> object:
            asked = pass_of(iterator)
            if not isinstance(asked, Asked):
                return original(iterator)
            self._begin(iterator)
            if asked.here:
                return made_here(iterator, asked.oldest())
            try:
                with self._tensors.receiving():
                    batch = original(iterator)
            except StopIteration:
                asked.end()
                raise
            except Exception as error:
                if _COULD_NOT not in str(error) or not _all_live(iterator):
                    asked.here = True
                    with suppress(Exception):  # torch tells again that a worker has ended
                        end_workers(iterator)
                return made_here(iterator, asked.oldest())
            asked.oldest()
            return batch

        return _next_data

    # ---- in a worker
    def _around_loop(self, original: Call) -> Call:
        @functools.wraps(original)  # it is passed by name to workers that are not forked
        def loop(*args: Any, **kwargs: Any) -> object:
            if self._starts:
                self._starts = False
                with suppress(OSError):
                    open_files_anew()
                fetch_by(data_set_of(args[DATASET]), lambda fetcher, _: _Failing(fetcher), collated=False)
            return original(*args, **kwargs)

        return loop


def _all_live(iterator: LoaderIterator) -> bool:
    return all(process.is_alive() for process in worker_processes(iterator))


class _Failing:
    """A worker's fetcher: what keeps it from making a batch can be sent, and does not end the worker."""

    def __init__(self, fetcher: Fetcher) -> None:
        self._fetcher = fetcher

    def fetch(self, indices: Any) -> object:
        try:
            return self._fetcher.fetch(indices)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            raise RuntimeError(
                f"process {os.getpid()} could not make a batch: {type(error).__name__}"
            ) from None
