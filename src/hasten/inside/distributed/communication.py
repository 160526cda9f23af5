"""How this rank communicates with the others: synchronously, or in the background."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from datetime import timedelta

import torch
import torch.distributed as dist

from ..internals.groups import Store, c10d
from ..job import Hosts, Ranks
from .backends.engine import Engine
from .backends.hierarchy import Hierarchy
from .backends.shm import Shm
from .backends.torch_groups import Native
from .meeting import Meeting
from .meeting_store import MeetingStore
from .register import ENGINES

_OF_TORCH = ("gloo", "nccl")


class Communication:
    """``now`` is an engine for collectives in the order of the script. Those begun by ``begin`` run in the
    background, in an order of their own, and are over after ``wait``.
    """

    def __init__(self, ranks: Ranks) -> None:
        self.rank, self.size = ranks.rank, ranks.world_size
        store = _store(ranks)
        host = "gloo" if ranks.backend == "nccl" else ranks.backend
        self.now = _engine(ranks, host, c10d.PrefixStore("now", store), 0)
        self._in_turn = _engine(ranks, ranks.backend, c10d.PrefixStore("in turn", store), 1)
        self._store = store  # engines use it as long as they live
        self._begun: queue.SimpleQueue[torch.Tensor] = queue.SimpleQueue()
        self._left = 0
        self._changed = threading.Condition()
        self._failure: BaseException | None = None
        self._thread: threading.Thread | None = None
        self._works: list[dist.Work] = []
        self.reduced_bytes = 0
        self.reductions = 0

    def sum(self, tensor: torch.Tensor) -> None:
        """Over all ranks, in place and at once; ``tensor`` on the device of the gradients or on the CPU."""
        if self.size > 1:  # an engine needs several ranks
            engine = self.now if tensor.device.type == "cpu" else self._in_turn
            engine.all_reduce(tensor, "sum")

    def gathered(self, tensor: torch.Tensor) -> torch.Tensor:
        """Each rank's ``tensor``, one row per rank."""
        rows = tensor.new_empty((self.size, *tensor.shape))
        if self.size == 1:
            rows[0] = tensor
        else:
            engine = self.now if tensor.device.type == "cpu" else self._in_turn
            engine.all_gather(rows, tensor.contiguous())
        return rows

    def barrier(self) -> None:
        """Return once all ranks have arrived."""
        if self.size > 1:
            self.now.barrier()

    # ---- the end
    def say_ended(self, steps: int) -> None:
        """Let the other ranks know that this one's script has ended, after ``steps``."""
        self._store.set(f"ended/{self.rank}", str(steps))

    def ended(self) -> dict[int, int]:
        """The ranks whose scripts have ended, and after how many steps each."""
        found = [rank for rank in range(self.size) if self._store.check([f"ended/{rank}"])]
        return {rank: int(self._store.get(f"ended/{rank}")) for rank in found}

    def meetings(self) -> list[Callable[[], None]]:
        """Call them at the same time, each in a thread: they return once all ranks have ended.
        A rank that still trains waits in one of the two for its gradients.
        """
        return [self.now.barrier, self._in_turn.barrier] if self.size > 1 else []

    def begin(self, tensor: torch.Tensor) -> None:
        """Sum ``tensor`` over all ranks, in place, while the caller goes on."""
        if not self._counted(tensor):
            return
        if isinstance(self._in_turn, Native):
            self._works.append(self._in_turn.begin_all_reduce(tensor))
            return
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="hasten all-reduce", daemon=True)
            self._thread.start()
        with self._changed:
            self._left += 1
        self._begun.put(tensor)

    def follow(self, tensor: torch.Tensor) -> None:
        """Like ``begin``, for a caller that has nothing else to do: on CPUs it is done on return, and no
        other thread has to be woken.
        """
        if isinstance(self._in_turn, Native):
            self.begin(tensor)
        elif self._counted(tensor):
            self.wait()
            self._in_turn.all_reduce(tensor, "sum")

    def _counted(self, tensor: torch.Tensor) -> bool:
        """Count it; whether there are other ranks."""
        self.reductions += 1
        self.reduced_bytes += tensor.numel() * tensor.element_size()
        return self.size > 1

    def wait(self) -> None:
        """Return once everything begun is done. Raises failures."""
        while self._works:
            self._works.pop(0).wait()
        with self._changed:
            self._changed.wait_for(lambda: self._left == 0 or self._failure is not None)
        if self._failure is not None:
            raise self._failure

    def _work(self) -> None:
        with torch.no_grad():
            while True:
                tensor = self._begun.get()
                try:
                    self._in_turn.all_reduce(tensor, "sum")
                except BaseException as error:
                    self._failure = error
                with self._changed:
                    self._left -= 1
                    self._changed.notify_all()


def _store(ranks: Ranks) -> Store:
    timeout = timedelta(seconds=ranks.timeout_seconds)
    if ranks.hosts is not None:
        hosts = ranks.hosts
        meeting = Meeting(hosts.meeting, bytes.fromhex(hosts.key), ranks.timeout_seconds)
        return MeetingStore(meeting, f"launch/{hosts.launch}", timeout)
    kind, _, place = ranks.store.partition("://")
    if kind == "file":
        store: Store = c10d.FileStore(place, ranks.world_size)
    else:
        host, _, port = place.rpartition(":")
        serves = ranks.rank == 0
        store = c10d.TCPStore(host, int(port), ranks.world_size, serves, timeout, wait_for_workers=False)
    store.set_timeout(timeout)
    return store


def _engine(ranks: Ranks, name: str, store: Store, place: int) -> Engine:
    timeout = timedelta(seconds=ranks.timeout_seconds)
    address = ranks.hosts.address if ranks.hosts is not None else ""
    if name in _OF_TORCH:
        return Native(name, store, ranks.rank, ranks.world_size, timeout, address)
    if name == "shm":
        memory = ranks.memory[place] if ranks.memory else None
        if ranks.hosts is not None and len(ranks.hosts.ranks) > 1:
            return _hierarchy(ranks, ranks.hosts, store, memory)
        return Shm(store, ranks.rank, ranks.world_size, timeout, memory)
    return ENGINES[name](store, ranks.rank, ranks.world_size, timeout)


def _hierarchy(ranks: Ranks, hosts: Hosts, store: Store, memory: int | None) -> Engine:
    """Shared memory within each host, Gloo between the first ranks of all."""
    timeout, mine = timedelta(seconds=ranks.timeout_seconds), hosts.ranks[hosts.here]
    own = c10d.PrefixStore(f"host {hosts.here}", store)
    place = mine.index(ranks.rank)
    within = Shm(own, place, len(mine), timeout, memory, mine) if len(mine) > 1 else None
    between = None
    if place == 0:
        among = c10d.PrefixStore("between", store)
        between = Native("gloo", among, hosts.here, len(hosts.ranks), timeout, hosts.address)
    return Hierarchy(hosts, ranks.rank, within, between, store)
