"""Ranks on several machines: those of one share memory, and one of each speaks with the other machines.

So a tensor leaves a machine once and comes back once, however many ranks that has.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress

import torch

from ...internals.groups import Store
from ...job import Hosts
from .engine import Engine, reduce_scatter_by_all_reduce

_REPORT_SECONDS = 3.0  # in which hosts that waited can say so


class HostGone(RuntimeError):
    """Another host did not take part, or the connection to it broke."""


class Hierarchy:
    """An ``Engine``. ``within``: the ranks of this host, numbered by their order in ``hosts``; None if there
    is only one. ``between``: the first rank of each host, numbered like the hosts; None in other ranks.
    """

    def __init__(
        self, hosts: Hosts, rank: int, within: Engine | None, between: Engine | None, store: Store
    ) -> None:
        self.rank = rank
        self._hosts, self._within, self._between, self._store = hosts, within, between, store
        self._mine = hosts.ranks[hosts.here]
        self._size = sum(map(len, hosts.ranks))
        self._calls = 0  # between hosts

    def all_reduce(self, tensor: torch.Tensor, op: str) -> None:
        """Add in the order of ranks within a host, then of hosts, so that all ranks get the same bits."""
        summed = "sum" if op == "avg" else op
        if self._within is not None:
            self._within.all_reduce(tensor, summed)
        self._across(lambda between: between.all_reduce(tensor, summed))
        self._spread(tensor)
        if op == "avg":
            tensor.div_(self._size)

    def reduce_scatter(self, output: torch.Tensor, tensor: torch.Tensor, op: str) -> None:
        reduce_scatter_by_all_reduce(self, output, tensor, op)

    def broadcast(self, tensor: torch.Tensor, root: int) -> None:
        home = self._hosts.of(root)
        if self._within is not None and home == self._hosts.here:
            self._within.broadcast(tensor, self._mine.index(root))
        self._across(lambda between: between.broadcast(tensor, home))
        if home != self._hosts.here:
            self._spread(tensor)

    def all_gather(self, output: torch.Tensor, tensor: torch.Tensor) -> None:
        """Hosts may have different numbers of ranks: between them each has as many rows as the largest."""
        most = max(map(len, self._hosts.ranks))
        flat = tensor.reshape(-1)
        rows = flat.new_zeros((most, flat.numel()))
        mine = rows[: len(self._mine)]
        if self._within is not None:
            self._within.all_gather(mine, flat)
        else:
            mine[0] = flat
        all_rows = flat.new_empty((len(self._hosts.ranks), most, flat.numel()))
        self._across(lambda between: between.all_gather(all_rows, rows))
        self._spread(all_rows)
        by_rank = output.view(self._size, -1)
        for number, ranks in enumerate(self._hosts.ranks):
            for place, rank in enumerate(ranks):
                by_rank[rank] = all_rows[number, place]

    def barrier(self) -> None:
        if self._within is not None:
            self._within.barrier()
        self._across(lambda between: between.barrier())
        if self._within is not None:
            self._within.barrier()

    def close(self) -> None:
        for engine in (self._within, self._between):
            if engine is not None:
                engine.close()

    # ---- means
    def _spread(self, tensor: torch.Tensor) -> None:
        """Broadcast ``tensor`` from this host's first rank to its others."""
        if self._within is not None:
            self._within.broadcast(tensor, 0)

    def _across(self, act: Callable[[Engine], None]) -> None:
        if self._between is None:
            return
        self._calls += 1
        try:
            act(self._between)
        except RuntimeError as error:
            said = str(error).partition(". This is typically")[0].rpartition("] ")[2] or str(error)
            raise HostGone(f"{self._who_is_missing()}: {said}") from error

    def _who_is_missing(self) -> str:
        """Each waiting host says so in the store, so the missing hosts are those that say nothing."""
        names, here = self._hosts.names, self._hosts.here
        missing = [number for number in range(len(names)) if number != here]
        with suppress(Exception):  # rank 0's host may be the missing one
            self._store.set(f"waits/{self._calls}/{here}", "")
            until = time.monotonic() + _REPORT_SECONDS
            while missing and time.monotonic() < until:
                missing = [n for n in missing if not self._store.check([f"waits/{self._calls}/{n}"])]
                time.sleep(0.1)
        who = _listed([names[number] for number in missing])
        return f"host {names[here]} waited in vain for {f'host {who}' if who else 'the others'}"


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names)
