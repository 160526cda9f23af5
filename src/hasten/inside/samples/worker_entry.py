"""What a loader's worker processes do before torch's own code runs in them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Protocol

from ..internals.loaders import CREATE_FETCHER, fetchers, is_indexed, resolving_worker_loop, worker_loop
from ..seams import Call, Seams
from .fetching import Fetcher

DATASET, WORKER = 1, 10  # of the arguments of torch's worker processes


class Handed(Protocol):
    """What a worker process needs; it can be pickled."""

    def serve(self, dataset: Any, worker: int) -> None:
        """In a worker process, by its number: put our code where samples are made."""


class WorkerEntry:
    """Runs in place of torch's own code of a loader's worker process, and calls it: where ``handed`` is set
    when the process is started, it serves there first.
    """

    def __init__(self, original: Call | None = None) -> None:
        if original is not None:
            functools.update_wrapper(self, original)  # others look at its signature
        self._original = original
        self.handed: Handed | None = None

    def __reduce__(self) -> Any:
        if self.handed is None:
            return resolving_worker_loop()
        return _started_anew, (self.handed,)

    def __call__(self, *arguments: Any) -> None:
        if self.handed is not None:
            with suppress(Exception):  # without us it makes samples as usual
                self.handed.serve(data_set_of(arguments[DATASET]), int(arguments[WORKER]))
        (self._original or worker_loop())(*arguments)


def data_set_of(argument: Any) -> Any:
    """The worker's data set: since torch 2.15 it comes in a list, which the worker empties."""
    return argument[0] if type(argument) is list and len(argument) == 1 else argument


def _started_anew(handed: Handed) -> WorkerEntry:
    entry = WorkerEntry()
    entry.handed = handed
    return entry


def fetch_by(dataset: object, make: Callable[[Fetcher, Call], Fetcher], collated: bool = True) -> None:
    """In a worker process, let ``make`` make the fetcher from (torch's own, the collate function).
    ``collated``: only where torch makes batches of samples.
    """

    def creating(original: Callable[..., Fetcher]) -> Callable[..., Fetcher]:
        def create_fetcher(
            kind: int, asked: object, auto_collation: bool, collate: Call, drop_last: bool
        ) -> Fetcher:
            fetcher = original(kind, asked, auto_collation, collate, drop_last)
            ours = asked is dataset and is_indexed(kind) and (auto_collation or not collated)
            return make(fetcher, collate) if ours else fetcher

        return create_fetcher

    Seams().replace(fetchers(), CREATE_FETCHER, creating)


def listed(indices: Any) -> Sequence[Any] | None:
    """The indices of one batch; None if a sampler gives something else."""
    return indices if isinstance(indices, (list, tuple)) else None
