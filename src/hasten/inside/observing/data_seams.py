"""The seams around DataLoaders: passes begin, batches are ordered, waited for and arrive."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING
from weakref import WeakSet, ref

from ..internals.loaders import (
    LOADER_MADE,
    NEXT_INDEX,
    RESET,
    batches_in,
    fetchers,
    is_indexed,
    iterator_kind,
    keeps_workers,
)
from ..samples.fetching import Fetch, Fetcher
from ..seams import Call
from ..training import Training
from .batches import elements_in
from .epoch_passes import is_gone
from .kept_iterators import KeptIterators
from .loaders import Loaders
from .observer import Observer, clock

if TYPE_CHECKING:
    from torch.utils.data import DataLoader

    from ..internals.loaders import LoaderIterator


def watch_data(
    training: Training,
    observer: Observer,
    loaders: Loaders,
    on_batch: Sequence[Callable[[object, LoaderIterator], None]],
    samples_come: Callable[[], None],
) -> None:
    """``on_batch`` get each batch and where it came from; ``samples_come``: a loader is about to make
    some.
    """
    seams = training.seams
    from torch.utils.data import DataLoader

    epoch_began = seams.watching(observer.epoch_began)
    samples_will_come = seams.watching(samples_come)

    timeline, kept = observer.timeline, KeptIterators(observer)
    all_ordered: WeakSet[LoaderIterator] = WeakSet()  # whose workers have nothing left to begin

    @seams.watching
    def loader_begins(loader: DataLoader[object]) -> None:
        if loaders.changes is not None:
            loaders.changes.pass_begins(loader.dataset)
        if timeline is not None:
            timeline.loader_begins(batches_in(loader))

    @seams.watching
    def loader_made(loader: DataLoader[object]) -> None:
        if loaders.changes is not None:
            loaders.changes.loader_made(loader.dataset)

    @seams.watching
    def iterator_made(iterator: LoaderIterator, loader: DataLoader[object]) -> None:
        kept.made(iterator, loader, type(loader).__iter__ is not DataLoader.__iter__)

    @seams.watching
    def batch_waited_for(iterator: LoaderIterator) -> None:
        kept.asked(iterator)
        if timeline is not None:
            timeline.batch_waited_for()

    @seams.watching
    def pass_begins(loader: DataLoader[object], iterator: LoaderIterator) -> None:
        kept.begun(iterator)
        if timeline is not None:
            held = is_gone if keeps_workers(iterator) else ref(iterator)  # the loader itself holds that one
            timeline.pass_begins(id(iterator), (id(loader.dataset), batches_in(loader)), held)

    @seams.watching
    def exhausted(iterator: LoaderIterator) -> None:
        loaders.pass_ended(iterator)
        source = kept.ended(iterator)
        if timeline is not None:
            timeline.loader_exhausted(source)

    def begun(original: Callable[..., LoaderIterator]) -> Call:
        def __iter__(loader: DataLoader[object]) -> object:
            loader_begins(loader)
            began = clock()
            if loader.num_workers:  # they are seeded and start with the epoch
                samples_will_come()
            iterator = original(loader)
            epoch_began(clock() - began)
            pass_begins(loader, iterator)
            return iterator

        return __iter__

    begins = seams.watching(loaders.epoch_begins)

    def made(original: Call) -> Call:
        def check_worker_number_rationality(loader: DataLoader[object]) -> None:
            original(loader)
            training.makes_loaders = True
            loader_made(loader)

        return check_worker_number_rationality

    def ordering(original: Call) -> Call:
        def _next_index(iterator: LoaderIterator) -> object:
            try:
                indices = original(iterator)
            except StopIteration:
                all_ordered.add(iterator)
                raise
            if seams.given_up:
                return indices
            try:
                loaders.batch_ordered(iterator, indices)
                samples_come()
            except Exception as error:
                seams.give_up(error)
            return indices

        return _next_index

    def resetting(original: Call) -> Call:
        def _reset(iterator: LoaderIterator, *args: object, **kwargs: object) -> object:
            begins(iterator)
            all_ordered.discard(iterator)
            return original(iterator, *args, **kwargs)

        return _reset

    def fetched(original: Call) -> Call:
        def __next__(iterator: LoaderIterator) -> object:
            batch_waited_for(iterator)
            began = clock()
            try:
                batch = original(iterator)
            except StopIteration:
                exhausted(iterator)
                raise
            if seams.given_up:
                return batch
            try:
                waited = clock() - began
                samples = loaders.batch_came(iterator, batch)
                elements, source = elements_in(batch), kept.source_of(iterator)
                observer.data_waited(waited, samples, elements, source, iterator in all_ordered)
                for notice in on_batch:
                    notice(batch, iterator)
            except Exception as error:
                seams.give_up(error)
            return batch

        return __next__

    def initialised(original: Call) -> Call:
        def __init__(iterator: LoaderIterator, loader: DataLoader[object]) -> None:
            original(iterator, loader)
            iterator_made(iterator, loader)

        return __init__

    def created(original: Callable[..., Fetcher]) -> Callable[..., Fetcher]:
        here = os.getpid()

        def create_fetcher(
            kind: int, dataset: object, auto_collation: bool, collate: Call, drop_last: bool
        ) -> Fetcher:
            fetcher = original(kind, dataset, auto_collation, collate, drop_last)
            ours = is_indexed(kind) and auto_collation and os.getpid() == here
            return Fetch(fetcher, training, dataset, collate) if ours else fetcher

        return create_fetcher

    if hasattr(DataLoader, LOADER_MADE):
        seams.replace(DataLoader, LOADER_MADE, made)
    else:
        training.makes_loaders = True  # nobody knows
    seams.replace(DataLoader, "__iter__", begun)
    seams.replace(iterator_kind(), "__init__", initialised)
    seams.replace(iterator_kind(), "__next__", fetched)
    seams.replace(iterator_kind(), NEXT_INDEX, ordering)
    seams.replace(iterator_kind(), RESET, resetting)
    seams.replace(fetchers(), "create_fetcher", created)
