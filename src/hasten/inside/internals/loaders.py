"""A DataLoader's iterator, which knows what the loader was made of when the pass began."""

from __future__ import annotations

from typing import Any

NEXT_INDEX = "_next_index"  # of an iterator: the indices of the batch to fetch next
NEXT_DATA = "_next_data"  # the batch whose turn it is, fetched
RESET = "_reset"  # a pass over the loader begins: (loader, first_iter)


def iterator_kind() -> Any:
    """The class of all iterators."""
    from torch.utils.data import dataloader

    return dataloader._BaseDataLoaderIter


def iterator_in_process() -> Any:
    """The class of those that fetch in the process that reads them."""
    from torch.utils.data import dataloader

    return dataloader._SingleProcessDataLoaderIter


def iterators_that_fetch() -> tuple[Any, Any]:
    """The classes that have ``NEXT_DATA``: in the process that reads, and in processes of their own."""
    from torch.utils.data import dataloader

    return dataloader._SingleProcessDataLoaderIter, dataloader._MultiProcessingDataLoaderIter


def fetchers() -> Any:
    """The class whose ``create_fetcher`` makes the object that fetches."""
    from torch.utils.data import dataloader

    return dataloader._DatasetKind


def is_indexed(kind: Any) -> bool:
    """Whether a dataset of this ``kind`` is asked by indices, rather than iterated over."""
    return bool(kind == fetchers().Map)


def dataset_of(iterator: Any) -> Any:
    return iterator._dataset


def reads_indices(iterator: Any) -> bool:
    """As ``is_indexed``; for a loader, too."""
    return is_indexed(iterator._dataset_kind)


def makes_batches(iterator: Any) -> bool:
    """Whether torch collates samples; else each item of the dataset is a batch."""
    return bool(iterator._auto_collation)


def collate_of(iterator: Any) -> Any:
    return iterator._collate_fn


def indices_of(iterator: Any) -> Any:
    """The batch sampler, or the sampler where torch makes no batches."""
    return iterator._index_sampler


def put_indices(iterator: Any, sampler: Any) -> None:
    iterator._index_sampler = sampler


def pass_of(iterator: Any) -> Any:
    """The pass over the indices that is under way: another object in each epoch."""
    return iterator._sampler_iter


def put_pass(iterator: Any, indices: Any) -> None:
    iterator._sampler_iter = indices


def workers_of(iterator: Any) -> int:
    """How many processes fetch; 0: the one that reads."""
    return int(iterator._num_workers)


def pins_memory(iterator: Any) -> bool:
    return bool(iterator._pin_memory)


def batches_given(iterator: Any) -> int:
    """In this pass."""
    return int(iterator._num_yielded)


def base_seed(iterator: Any) -> int:
    """The seed of worker processes: each adds its number."""
    return int(iterator._base_seed)


def put_base_seed(iterator: Any, seed: int) -> None:
    iterator._base_seed = seed


def collating() -> Any:
    """The module with what ``default_collate`` is made of."""
    from torch.utils.data import _utils

    return _utils.collate
