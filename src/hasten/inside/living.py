"""Values kept for the script's objects for as long as these live: the script decides when to drop
them.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar

Kept = TypeVar("Kept")
Reference = Callable[[], Any]
"""The object; None once it is gone."""


def reference(one: object, gone: Callable[[object], object] | None = None) -> Reference:
    """A reference that does not keep ``one`` alive. What cannot be weakly referenced, such as a list, is
    held.
    """
    try:
        return weakref.ref(one, gone)
    except TypeError:
        return lambda: one


def can_go(one: object) -> bool:
    """Whether ``reference`` does not keep it alive."""
    return type(one).__weakrefoffset__ != 0


class Living(Generic[Kept]):
    """A value for each object, by identity and not by equality. The value goes with its object, and then
    ``gone`` gets it.
    """

    def __init__(self, gone: Callable[[Kept], None] = lambda kept: None) -> None:
        self._gone = gone
        self._kept: dict[int, tuple[Reference, Kept]] = {}

    def put(self, one: object, kept: Kept) -> None:
        key = id(one)
        self._kept[key] = reference(one, lambda _: self._drop(key)), kept

    def get(self, one: object) -> Kept | None:
        found = self._kept.get(id(one))
        return found[1] if found is not None else None

    def items(self) -> Iterator[tuple[Any, Kept]]:
        """Living objects and their values, in insertion order."""
        for refer, kept in self._kept.copy().values():
            one = refer()
            if one is not None:
                yield one, kept

    def __iter__(self) -> Iterator[Any]:
        return (one for one, _ in self.items())

    def values(self) -> list[Kept]:
        return [kept for _, kept in self.items()]

    def __contains__(self, one: object) -> bool:
        return id(one) in self._kept

    def __len__(self) -> int:
        return len(self._kept)

    def drop(self, one: object) -> None:
        """As if it were gone, without calling ``gone``."""
        self._kept.pop(id(one), None)

    def clear(self) -> None:
        self._kept = {}

    def _drop(self, key: int) -> None:
        found = self._kept.pop(key, None)
        if found is not None:
            self._gone(found[1])
