"""Sends and receives between two ranks, through Gloo: a group per pair, created when both first use it."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING

import torch.distributed as dist

from ..internals.groups import Store, c10d

if TYPE_CHECKING:
    from torch import Tensor

Begin = Callable[[dist.ProcessGroup], dist.Work]


class Pairs:
    """The pairs of one rank with all others. Nothing here blocks: a rank may send to one and receive from
    another in any order, as with Gloo.
    """

    def __init__(self, store: Store, rank: int, timeout: timedelta) -> None:
        self._store, self._rank, self._timeout = store, rank, timeout
        self._lines: dict[str, _Line] = {}

    def send(self, tensors: Sequence[Tensor], receiver: int, tag: int) -> _Pending:
        """Begin to send; returns a work whose ``wait`` returns once all tensors were sent."""
        given = [tensor.detach().contiguous() for tensor in tensors]
        line = self._line(f"{self._rank}-{receiver}", receiver, 0)
        return line.ask(lambda group: group.send(given, 1, tag), lambda: None)

    def receive(self, tensors: Sequence[Tensor], sender: int, tag: int) -> _Pending:
        """Begin to receive into ``tensors``; returns a work whose ``wait`` returns once they are there."""
        plain = [tensor.detach().contiguous() for tensor in tensors]

        def come() -> None:
            for tensor, one in zip(tensors, plain, strict=True):
                if not tensor.is_contiguous():
                    tensor.detach().copy_(one)

        line = self._line(f"{sender}-{self._rank}", sender, 1)
        return line.ask(lambda group: group.recv(plain, 0, tag), come)

    def _line(self, name: str, other: int, side: int) -> _Line:
        if other == self._rank:
            raise ValueError(f"rank {other} cannot send to itself, or receive from itself")
        if name not in self._lines:
            self._lines[name] = _Line(c10d.PrefixStore(f"pair {name}", self._store), side, self._timeout)
        return self._lines[name]


class _Line:
    """One direction between two ranks. A separate thread creates the group, which waits for both ranks."""

    def __init__(self, store: Store, side: int, timeout: timedelta) -> None:
        self._store, self._side, self._timeout = store, side, timeout
        self._asked: queue.SimpleQueue[tuple[Begin, _Pending]] = queue.SimpleQueue()
        threading.Thread(target=self._work, name="hasten pair", daemon=True).start()

    def ask(self, begin: Begin, end: Callable[[], None]) -> _Pending:
        """Call ``begin`` with the group; the returned work calls ``end`` after it was waited for."""
        pending = _Pending(end)
        self._asked.put((begin, pending))
        return pending

    def _work(self) -> None:
        group: dist.ProcessGroup | None = None
        while True:
            begin, pending = self._asked.get()
            try:
                if group is None:
                    group = c10d.ProcessGroupGloo(self._store, self._side, 2, self._timeout)
                assert group is not None
                pending.begun(begin(group))
            except Exception as error:
                pending.failed(error)


class _Pending(dist.Work):
    """A work that begins once its group exists."""

    def __init__(self, end: Callable[[], None]) -> None:
        super().__init__()
        self._end = end
        self._began = threading.Event()
        self._inner: dist.Work | None = None
        self._error: Exception | None = None

    def begun(self, inner: dist.Work) -> None:
        self._inner = inner
        self._began.set()

    def failed(self, error: Exception) -> None:
        self._error = error
        self._began.set()

    def wait(self, timeout: timedelta | None = None) -> bool:
        self._began.wait()
        if self._error is not None:
            raise self._error
        assert self._inner is not None
        done = bool(self._inner.wait(timeout) if timeout else self._inner.wait())
        self._end()
        return done

    def is_completed(self) -> bool:
        return self._began.is_set() and (self._inner is None or bool(self._inner.is_completed()))
