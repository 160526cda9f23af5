"""Watches a loader's workers make batches, for one pass: one that draws random numbers, or in whose making
the script's code meets an error, may be another the next time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..internals.loaders import CREATE_FETCHER, fetchers
from ..seams import Call, Seams
from .draws_in_samples import MakingWatch, Seen
from .fetching import Fetcher
from .store_counts import Counts


def why_another(name: str, seen: Seen) -> str:
    """Why a batch of the data set ``name`` may be different the next time; "" if it will not be."""
    if seen.drew:
        return f"making a batch of {name} draws random numbers"
    if seen.error:
        return (
            f"making a batch of {name} meets errors ({seen.error}): another time it may give something else"
        )
    return ""


class WatchedStart:
    """Replaces a loader's ``worker_init_fn``, and calls it. The workers report to ``told`` what they see."""

    def __init__(self, own: Callable[[int], object] | None, told: Counts) -> None:
        self._own, self._told = own, told

    def __call__(self, worker: int) -> None:
        if self._own is not None:
            self._own(worker)
        Seams().replace(fetchers(), CREATE_FETCHER, self._creating)

    def _creating(self, original: Any) -> Call:
        def create_fetcher(kind: int, dataset: object, *rest: Any) -> Fetcher:
            return _WatchedFetch(original(kind, dataset, *rest), dataset, self._told)

        return create_fetcher


class _WatchedFetch:
    def __init__(self, fetcher: Fetcher, dataset: object, told: Counts) -> None:
        import torch

        self._fetcher, self._told = fetcher, told
        self._name = type(dataset).__name__
        self._watch = MakingWatch(torch, dataset, apart=True)

    def fetch(self, indices: Any) -> object:
        self._watch.begin()
        try:
            return self._fetcher.fetch(indices)
        finally:
            why = why_another(self._name, self._watch.end())
            if why:
                self._told.give_up(why)
