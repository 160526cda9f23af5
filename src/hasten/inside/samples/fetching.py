"""Where a DataLoader's samples and batches come from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from ..seams import Call
from ..training import Training


class Fetcher(Protocol):
    """The interface of torch's fetchers."""

    def fetch(self, indices: Any) -> object:
        """The batch of these samples."""


def samples_of(dataset: Any, indices: Sequence[Any]) -> Any:
    """The samples, requested as torch's own loaders do."""
    several = getattr(dataset, "__getitems__", None)
    return several(indices) if several else [dataset[index] for index in indices]


class Fetch:
    """A loader's fetcher that first asks the installed providers for the batch or its samples, and the
    dataset otherwise. Providers look at the indices several times: iterators go to torch's own fetcher alone.
    """

    def __init__(self, fetcher: Fetcher, training: Training, dataset: object, collate: Call) -> None:
        self._fetcher = fetcher
        self._training = training
        self._dataset = dataset
        self._collate = collate

    def fetch(self, indices: Any) -> object:
        if not (isinstance(indices, Sequence) or hasattr(indices, "dtype")):
            return self._fetcher.fetch(indices)
        for provide_batch in self._training.batch_providers.values():
            batch = provide_batch(self._dataset, indices, self._collate)
            if batch is not None:
                return batch
        for provide in self._training.fetch_providers.values():
            samples = provide(self._dataset, indices, self._collate)
            if samples is not None:
                return self._collate(samples)
        return self._fetcher.fetch(indices)
