"""A DataLoader's iterator, which knows the loader's arguments as of the start of the pass."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pkgutil import resolve_name
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from torch import Tensor
    from torch.utils.data import DataLoader
    from torch.utils.data import dataloader as _of_torch

    LoaderIterator: TypeAlias = _of_torch._BaseDataLoaderIter
    """One pass over a DataLoader."""

NEXT_INDEX = "_next_index"  # of an iterator: the indices of the batch to fetch next
NEXT_DATA = "_next_data"  # the next batch, fetched
LOADER_MADE = "check_worker_number_rationality"  # of a loader: what its ``__init__`` calls last
RESET = "_reset"  # a pass over the loader begins: (loader, first_iter)
WORKER_LOOP = "_worker_loop"  # of ``worker_module``: all that a worker process does
CREATE_FETCHER = "create_fetcher"  # of ``fetchers()``
REBUILD_TENSOR = "rebuild_tensor"  # of ``tensors_received()``: (class, storage, how it is laid out)


def iterator_kind() -> type[LoaderIterator]:
    """The class of all iterators."""
    from torch.utils.data import dataloader

    return dataloader._BaseDataLoaderIter


def iterator_in_process() -> type[LoaderIterator]:
    """The class of those that fetch in the process that reads them."""
    from torch.utils.data import dataloader

    return dataloader._SingleProcessDataLoaderIter


def iterators_that_fetch() -> tuple[type[LoaderIterator], type[LoaderIterator]]:
    """The classes that have ``NEXT_DATA``: in the reading process, and in worker processes."""
    from torch.utils.data import dataloader

    return dataloader._SingleProcessDataLoaderIter, dataloader._MultiProcessingDataLoaderIter


def fetchers() -> type[_of_torch._DatasetKind]:
    """The class whose ``create_fetcher`` makes the object that fetches."""
    from torch.utils.data import dataloader

    return dataloader._DatasetKind


def is_indexed(kind: int) -> bool:
    """Whether a dataset of this ``kind`` is indexed rather than iterated over."""
    return bool(kind == fetchers().Map)


def dataset_of(iterator: LoaderIterator) -> Any:
    return iterator._dataset


def reads_indices(iterator: LoaderIterator | DataLoader[object]) -> bool:
    """Like ``is_indexed``; for a loader, too."""
    return is_indexed(iterator._dataset_kind)


def makes_batches(iterator: LoaderIterator | DataLoader[object]) -> bool:
    """Whether torch collates samples; otherwise each item of the dataset is a batch."""
    return bool(iterator._auto_collation)


def collate_of(iterator: LoaderIterator) -> Callable[[Any], object]:
    return iterator._collate_fn


def indices_of(iterator: LoaderIterator) -> Iterable[object]:
    """The batch sampler, or the sampler if torch makes no batches."""
    indices: Iterable[object] = iterator._index_sampler
    return indices


def put_indices(iterator: LoaderIterator, sampler: Iterable[object]) -> None:
    vars(iterator)["_index_sampler"] = sampler


def pass_of(iterator: LoaderIterator) -> Iterator[object]:
    """The current pass over the indices: a different object in each epoch."""
    indices: Iterator[object] = iterator._sampler_iter
    return indices


def put_pass(iterator: LoaderIterator, indices: Iterator[object]) -> None:
    vars(iterator)["_sampler_iter"] = indices


def ask_later(iterator: LoaderIterator) -> None:
    """A pass by workers that is about to begin asks its sampler for nothing before ``ask_ahead``."""
    vars(iterator)["_prefetch_factor"] = 0


def ask_ahead(iterator: LoaderIterator, factor: int) -> None:
    """Have each worker make ``factor`` batches ahead."""
    of_workers: Any = iterator
    of_workers._prefetch_factor = factor
    for _ in range(factor * workers_of(iterator)):
        of_workers._try_put_index()


def made_here(iterator: LoaderIterator, indices: object) -> object:
    """The batch of these indices, made by this process."""
    from torch.utils.data import _utils

    pin: Any = _utils.pin_memory.pin_memory
    batch: object = _fetcher(iterator, iterator._dataset, iterator._collate_fn, iterator._drop_last)(indices)
    return pin(batch) if pins_memory(iterator) else batch


def first_batch(loader: DataLoader[Any], most: int | None = None) -> Callable[[], object]:
    """Makes the batch of the indices that its sampler gives first, ``most`` of them.

    Raises StopIteration if there are none.
    """
    asked: Any = loader
    indices = next(iter(asked._index_sampler))
    if most is not None and asked._auto_collation:
        indices = list(indices)[:most]
    fetch = _fetcher(asked, asked.dataset, asked.collate_fn, asked.drop_last)
    return lambda: fetch(indices)


def _fetcher(asked: Any, dataset: object, collate: object, drop_last: bool) -> Callable[[Any], object]:
    kind: Any = fetchers()
    made: Any = kind.create_fetcher(asked._dataset_kind, dataset, asked._auto_collation, collate, drop_last)
    fetch: Callable[[Any], object] = made.fetch
    return fetch


def tensors_received() -> ModuleType:
    """The module that makes tensors of what other processes send."""
    from torch.multiprocessing import reductions

    return reductions


def workers_of(iterator: LoaderIterator) -> int:
    """How many processes fetch; 0: the reading process."""
    return int(iterator._num_workers)


def pins_memory(iterator: LoaderIterator) -> bool:
    return bool(iterator._pin_memory)


def batches_given(iterator: LoaderIterator) -> int:
    """Batches given in this pass."""
    return int(iterator._num_yielded)


def base_seed(iterator: LoaderIterator) -> int:
    """The seed of worker processes: each adds its number."""
    return int(iterator._base_seed)


def put_base_seed(iterator: LoaderIterator, seed: int) -> None:
    iterator._base_seed = seed


def keeps_workers(iterator: LoaderIterator) -> bool:
    """Whether its worker processes stay for the next pass."""
    return bool(iterator._persistent_workers)


def worker_module() -> ModuleType:
    """The module that runs in worker processes."""
    from torch.utils.data._utils import worker

    return worker


def put_resume_seed(iterator: LoaderIterator, seed: int | None) -> None:
    """Send ``seed`` along when workers resume; those of an indexed dataset ignore it."""
    iterator._shared_seed = seed


def resume_seed(message: object) -> int | None:
    """The seed that came with a worker's resume message; None for any other message."""
    return message.seed if isinstance(message, worker_module()._ResumeIteration) else None


def end_workers(iterator: LoaderIterator) -> None:
    """Have the worker processes end by themselves, as they do after the last batch, and wait for that."""
    end = getattr(iterator, "_shutdown_workers", None)
    if end is not None:
        end()


def index_queues(iterator: LoaderIterator) -> list[Any]:
    """One queue per worker process."""
    return list(vars(iterator)["_index_queues"])


def worker_processes(iterator: LoaderIterator) -> list[Any]:
    return list(vars(iterator)["_workers"])


def seed_worker(torch: ModuleType, base_seed: int, number: int) -> None:
    """Seed this worker process as torch seeds a new one."""
    module = worker_module()
    random.seed(base_seed + number)
    torch.manual_seed(base_seed + number)
    if module.HAS_NUMPY:
        import numpy

        numpy.random.seed(module._generate_state(base_seed, number))


def put_worker_seed(seed: int) -> None:
    """Set the seed that ``get_worker_info`` reports in this worker."""
    module = worker_module()
    old: Any = vars(module)["_worker_info"]
    vars(module)["_worker_info"] = module.WorkerInfo(
        id=old.id, num_workers=old.num_workers, seed=seed, dataset=old.dataset
    )


@contextmanager
def as_worker(dataset: object, seed: int) -> Iterator[None]:
    """Within, ``get_worker_info`` reports one of two worker processes."""
    told = vars(worker_module())
    before = told.get("_worker_info")
    told["_worker_info"] = told["WorkerInfo"](id=1, num_workers=2, seed=seed, dataset=dataset)
    try:
        yield
    finally:
        told["_worker_info"] = before


def collating() -> ModuleType:
    """The module with the parts of ``default_collate``."""
    from torch.utils.data import _utils

    return _utils.collate


def worker_loop() -> Callable[..., None]:
    loop: Callable[..., None] = getattr(worker_module(), WORKER_LOOP)
    return loop


def resolving_worker_loop() -> tuple[Callable[[str], Any], tuple[str]]:
    """How pickle writes torch's own ``worker_loop``, whatever replaces it here."""
    return resolve_name, (f"torch.utils.data._utils.worker:{WORKER_LOOP}",)


def shared_floats(torch: ModuleType, shape: tuple[int, ...]) -> Tensor:
    """Uninitialised float32 numbers in memory that a worker process can pass on without a copy: the same as
    its ``default_collate`` uses for a batch.
    """
    empty: Tensor = torch.empty(0, dtype=torch.float32, device="cpu")
    share = getattr(torch.UntypedStorage, "_new_shared", None)
    if share is None:
        return empty.resize_(shape)
    strides = tuple(math.prod(shape[place + 1 :]) for place in range(len(shape)))
    return empty.set_(share(4 * math.prod(shape), device="cpu"), 0, shape, strides)


def batches_in(loader: DataLoader[object]) -> int | None:
    """Batches in one pass; None if unknown."""
    if not reads_indices(loader):
        return None
    try:
        return len(loader)
    except Exception:  # a sampler of the user's may have no length
        return None
