"""Records of things that the script may free: a model local to ``main()`` is gone when that returns."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Generic, TypeVar

Thing = TypeVar("Thing")
Record = TypeVar("Record")


class Remembered(Generic[Thing, Record]):
    """Records of the things in ``living()``, which are held weakly.

    ``records`` returns the living ones, as they are now, and those that died after the last step, as last
    seen. So what trained to the end is in the report, and what the script dropped earlier is not.
    """

    def __init__(self, living: Callable[[], list[Thing]], describe: Callable[[Thing], Record]) -> None:
        self._living, self._describe = living, describe
        self._seen: list[tuple[weakref.ref[Thing], Record]] = []
        self.stale = False  # one of them died

    def look(self) -> None:
        """Describe the living ones. Call it at the end of a step."""
        self.stale = False
        self._seen = [(weakref.ref(one, self._died), self._describe(one)) for one in self._living()]

    def records(self) -> tuple[Record, ...]:
        now = {id(one): one for one in self._living()}
        records = []
        for ref, record in self._seen:
            one = ref()
            records.append(record if one is None else self._describe(one))
            now.pop(id(one), None)
        return (*records, *map(self._describe, now.values()))

    def _died(self, ref: weakref.ref[Thing]) -> None:
        self.stale = True
