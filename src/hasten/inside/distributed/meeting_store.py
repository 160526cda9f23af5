"""A store of torch's over a meeting: where Gloo's groups between machines find each other."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from ..internals.groups import Store
from .meeting import Meeting


class MeetingStore(Store):
    """What torch's groups need of a store, without counters. All names in it begin with ``prefix``."""

    def __init__(self, meeting: Meeting, prefix: str, timeout: timedelta) -> None:
        super().__init__()
        self._meeting, self._prefix, self._seconds = meeting, prefix, timeout.total_seconds()

    def set(self, key: str, value: str | bytes) -> None:
        self._meeting.put(self._of(key), value.encode() if isinstance(value, str) else bytes(value))

    def get(self, key: str) -> bytes:
        return self._meeting.get(self._of(key), self._seconds)

    def wait(self, keys: Sequence[str], timeout: timedelta | None = None) -> None:
        for key in keys:
            self._meeting.get(self._of(key), self._seconds if timeout is None else timeout.total_seconds())

    def check(self, keys: Sequence[str]) -> bool:
        return all(self._meeting.look(self._of(key), wait=False) is not None for key in keys)

    def set_timeout(self, timeout: timedelta) -> None:
        self._seconds = timeout.total_seconds()

    @property
    def timeout(self) -> timedelta:
        return timedelta(seconds=self._seconds)

    def _of(self, key: str) -> str:
        return f"{self._prefix}/{key}"
