"""Where a DataLoader's samples and batches come from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..training import Training


def samples_of(dataset: Any, indices: Sequence[Any]) -> Any:
    """As torch's own loaders ask for them."""
    several = getattr(dataset, "__getitems__", None)
    return several(indices) if several else [dataset[index] for index in indices]


class Fetch:
    """A loader's fetcher that asks the installed providers first, for the batch or its samples, and the
    dataset otherwise.
    """

    def __init__(self, fetcher: Any, training: Training, dataset: Any, collate: Any) -> None:
        self._fetcher = fetcher
        self._training = training
        self._dataset = dataset
        self._collate = collate

    def fetch(self, indices: Sequence[Any]) -> Any:
        for provide_batch in self._training.batch_providers.values():
            batch = provide_batch(self._dataset, indices, self._collate)
            if batch is not None:
                return batch
        for provide in self._training.fetch_providers.values():
            samples = provide(self._dataset, indices, self._collate)
            if samples is not None:
                return self._collate(samples)
        return self._fetcher.fetch(indices)
