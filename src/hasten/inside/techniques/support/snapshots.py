"""Copies of what torch is about to write into a file."""

from __future__ import annotations

import time
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol

from .background_saves import Place

if TYPE_CHECKING:
    from torch import UntypedStorage

Record = tuple[str, "str | bytes | UntypedStorage", int]


class Taker(Protocol):
    def taken(self, place: Place, records: list[Record], original: Any, size: int, began: float) -> None:
        """A copy is complete. It ``began`` at that time of ``time.perf_counter``."""

    def goes_as_ever(self) -> None:
        """A copy was given up: the file is saved as usual."""


class Snapshot:
    """Stands in for torch's writer of a zip file and keeps copies of what it is told to write. If they take
    more than ``limit`` bytes, or more than the disk has room for, torch's own writer writes all of it.
    """

    def __init__(self, taker: Taker, place: Place, original: Any, path: str, limit: int) -> None:
        self._taker, self._place, self._original, self._path = taker, place, original, path
        self._limit = limit
        self._records: list[Record] = []
        self._size = 0
        self._own: Any = None  # torch's own writer, once it saves as usual
        self._writer: Any = None
        self._began = time.perf_counter()

    def __enter__(self) -> Snapshot:
        return self

    def write_record(self, name: str, data: Any, size: int) -> None:
        if self._writer is None and not self._fits(data, size):
            self._as_ever()
        if self._writer is not None:
            self._writer.write_record(name, data, size)
            return
        self._size += size
        self._records.append((name, data if isinstance(data, (str, bytes)) else data.clone(), size))

    def _fits(self, data: Any, size: int) -> bool:
        copied = isinstance(data, (str, bytes)) or hasattr(data, "clone")
        return copied and self._size + size <= self._limit

    def __getattr__(self, name: str) -> Any:
        """Any other attribute is that of torch's own writer."""
        if name.startswith("__"):
            raise AttributeError(name)
        self._as_ever()
        return getattr(self._writer, name)

    def _as_ever(self) -> None:
        if self._writer is not None:
            return
        self._place.drop()
        self._taker.goes_as_ever()
        self._own = self._original(self._path)
        self._writer = self._own.__enter__()
        records, self._records = self._records, []
        for record in records:
            self._writer.write_record(*record)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None and self._writer is None and not self._place.has_room_for(self._size):
            self._as_ever()
        if self._writer is not None:
            self._own.__exit__(kind, error, trace)
        elif error is not None:
            self._place.drop()
        else:
            self._taker.taken(self._place, self._records, self._original, self._size, self._began)
