"""Reads a DataLoader for one pass with different options from the script's, and the same random draws.

A loader's options are changed while its iterator is created, and are restored before the script sees either.
Without worker processes an iterator calls ``iter(sampler)``, then draws the workers' base seed; with workers
it calls ``iter(sampler)`` once more; persistent workers do not draw a base seed again. A sampler that draws
in ``iter`` would give a different order. So each variant is made to draw as the script's own options would.
``kept_workers`` handles workers that stay although the script's would not.

Source: https://docs.pytorch.org/docs/stable/data.html#multi-process-data-loading
"""

from __future__ import annotations

import multiprocessing
import sys
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from multiprocessing.context import BaseContext
from typing import TYPE_CHECKING, Any

from ..internals.loaders import (
    NEXT_DATA,
    RESET,
    indices_of,
    iterator_kind,
    iterators_that_fetch,
    pass_of,
    put_indices,
    put_pass,
    workers_of,
)
from ..living import Living
from ..seams import Call
from ..training import Training
from .added_workers import AddedWorkers
from .kept_workers import KeptWorkers
from .read_ahead import ReadAhead
from .sampler_passes import AskedAhead

if TYPE_CHECKING:
    from torch.utils.data import DataLoader

    from ..internals.loaders import LoaderIterator

_KEPT = "_iterator"  # where torch's loader keeps the iterator whose workers stay
_CONTEXT = "_DataLoader__multiprocessing_context"  # where the property keeps its value
_MARK = "_by_hasten"
_NOTHING: AbstractContextManager[None] = nullcontext()

Choose = Callable[["DataLoader[object]"], "Mapping[str, object] | None"]
"""A loader that is about to be read -> options to read it with, or None for the script's own."""


class LoaderOverride:
    """Wraps ``DataLoader.__iter__``; ``batches`` counts those that came from iterators with other options.
    ``kept``: needed where options let workers stay; ``ahead`` watches passes that the script
    would read itself.
    """

    def __init__(
        self,
        training: Training,
        choose: Choose,
        kept: KeptWorkers | None = None,
        ahead: ReadAhead | None = None,
    ) -> None:
        self.batches = 0
        self._kept, self._ahead = kept, ahead
        self._training = training
        self._torch = training.torch
        self._choose = choose
        self._made: weakref.WeakSet[LoaderIterator] = weakref.WeakSet()
        from torch.utils.data import DataLoader

        training.seams.replace(DataLoader, "__iter__", self._around_iter)
        training.seams.replace(iterator_kind(), RESET, self._around_reset)
        for kind in iterators_that_fetch():
            training.seams.replace(kind, NEXT_DATA, self._counting)

    def _around_iter(self, original: Callable[..., LoaderIterator]) -> Call:
        def __iter__(loader: DataLoader[object]) -> LoaderIterator:
            options = self._choose(loader)
            if options is None:
                return original(loader)
            values = vars(loader)
            own = {name: values[name] for name in (*options, "num_workers", "persistent_workers", _KEPT)}
            if "persistent_workers" in options and _is_read_by_others(_staying.get(loader)):
                options = {**options, "persistent_workers": False}  # kept workers serve one reader at a time
            made: list[LoaderIterator] = []
            starting = self._starting(loader, options, own, made)
            values.update(options)
            values.setdefault(_MARK, own)  # an outer override knows better what the script's options are
            try:
                with starting, self._adding(own, options):
                    iterator = original(loader)
                    made.append(iterator)
            finally:
                if values[_KEPT] is not own[_KEPT]:
                    _staying.put(loader, _Stays(values[_KEPT]))
                values.update(own)
                values.pop(_MARK, None)
            if "num_workers" in options and own["num_workers"] and not workers_of(iterator):
                count = own["num_workers"] * (own.get("prefetch_factor") or 2)
                put_pass(iterator, AskedAhead(iter(indices_of(iterator)), count))
            self._made.add(iterator)
            if self._ahead is not None and not (own["num_workers"] and workers_of(iterator)):
                self._ahead.begins(iterator, here=not workers_of(iterator))
            return iterator

        return __iter__

    def _starting(
        self,
        loader: DataLoader[object],
        options: Mapping[str, object],
        own: Mapping[str, object],
        made: list[LoaderIterator],
    ) -> AbstractContextManager[None]:
        """The contexts for creating the iterator. Workers that may not continue are released."""
        values = vars(loader)
        if not options.get("persistent_workers"):
            return _NOTHING
        kept = self._kept if not (own["num_workers"] and own["persistent_workers"]) else None
        stays = _staying.get(loader)
        _staying.drop(loader)
        if stays is not None and (kept is None or kept.may_go_on(loader, stays.iterator)):
            values[_KEPT] = stays.iterator
            return _NOTHING
        if kept is None:
            return _NOTHING
        return kept.starting(loader, made, is_forked(options.get(_CONTEXT, values.get(_CONTEXT))))

    def _adding(
        self, own: Mapping[str, object], options: Mapping[str, object]
    ) -> AbstractContextManager[None]:
        """The context for starting workers of a loader that has none without us."""
        added = AddedWorkers.of(self._training)
        is_added = added is not None and not own["num_workers"] and options.get("num_workers")
        return added.starting() if added is not None and is_added else _NOTHING

    def _around_reset(self, original: Call) -> Call:
        def _reset(iterator: LoaderIterator, *args: object, **kwargs: object) -> object:
            loader: Any = args[0] if args else kwargs.get("loader")
            own = vars(loader).pop(_MARK, None) if loader is not None else None
            if own is None or (own["num_workers"] and own["persistent_workers"]):
                return original(iterator, *args, **kwargs)
            first = args[1] if len(args) > 1 else kwargs.get("first_iter", False)
            sampler = indices_of(iterator)
            begun = pass_of(iterator)
            if not first:
                begun = iter(sampler)
                seed = self._draw_base_seed(loader)
                kept = KeptWorkers.of(self._training)  # also if another override lets them stay
                if kept is not None:
                    kept.go_on(iterator, seed)
            if own["num_workers"]:
                return original(iterator, *args, **kwargs)
            added = AddedWorkers.of(self._training)
            if added is not None and workers_of(iterator):
                begun = added.noted(iterator, begun, loader.prefetch_factor)
            put_indices(iterator, _Begun(begun))
            try:
                return original(iterator, *args, **kwargs)
            finally:
                put_indices(iterator, sampler)

        return _reset

    def _draw_base_seed(self, loader: DataLoader[object]) -> int:
        empty = self._torch.empty((), dtype=self._torch.int64)
        return int(empty.random_(generator=loader.generator).item())

    def _counting(self, original: Call) -> Call:
        ahead = self._ahead

        def _next_data(iterator: LoaderIterator) -> object:
            try:
                batch = original(iterator)
            except StopIteration:
                if ahead is not None:
                    ahead.ended(iterator)
                raise
            self.batches += iterator in self._made
            if ahead is not None:
                ahead.gave(iterator)
            return batch

        return _next_data


def workers(
    count: int, prefetch_factor: int, persistent: bool, context: BaseContext | None
) -> dict[str, object]:
    """Options of a loader that is read by ``count`` worker processes, or by none. ``context`` is one of
    torch.multiprocessing's, or None for the usual one.
    """
    if not count:
        return {"num_workers": 0, "prefetch_factor": None, "persistent_workers": False, _CONTEXT: None}
    return {
        "num_workers": count,
        "prefetch_factor": prefetch_factor,
        "persistent_workers": persistent,
        _CONTEXT: context,
    }


def context_of(loader: DataLoader[object]) -> BaseContext | None:
    """The multiprocessing context that the script asked for, or None."""
    return vars(loader).get(_CONTEXT)


def has_workers(loader: DataLoader[object]) -> bool:
    """Whether workers stay from an earlier pass."""
    return vars(loader).get(_KEPT) is not None or loader in _staying


def lets_workers_stay(loader: DataLoader[object]) -> bool:
    """Whether the script does, even while the loader is read with different options."""
    own = vars(loader).get(_MARK, vars(loader))
    return bool(own["num_workers"] and own["persistent_workers"])


def is_forked(context: Any) -> bool:
    """Whether processes of this context are forks of this one."""
    method = context if isinstance(context, str) or context is None else context.get_start_method()
    return (method or multiprocessing.get_start_method()) == "fork"


class _Begun:
    """Replaces a sampler: ``iter`` returns a pass that has already begun."""

    def __init__(self, iterator: Iterator[object]) -> None:
        self._iterator = iterator

    def __iter__(self) -> Iterator[object]:
        return self._iterator


class _Stays:
    """Holds an iterator whose workers stay."""

    def __init__(self, iterator: Any) -> None:
        self.iterator = iterator


_staying: Living[_Stays] = Living()  # between two passes: a loader that holds an iterator cannot be pickled


def _is_read_by_others(stays: _Stays | None) -> bool:
    """Whether anything else still holds the iterator that a loader keeps with its workers."""
    return stays is not None and _holders(stays) > _holders(_Stays(object()))


def _holders(stays: _Stays) -> int:
    held = stays.iterator
    return sys.getrefcount(held)
