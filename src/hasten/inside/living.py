"""What is kept for objects of the script's, for as long as they live: when to drop them is the script's
business.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar

Kept = TypeVar("Kept")
Reference = Callable[[], Any]
"""The object; None once it is gone."""


def reference(one: object, gone: Callable[[object], object] | None = None) -> Reference:
    """One that does not keep ``one`` alive. What cannot be referred to weakly, such as a list, is held."""
    try:
        return weakref.ref(one, gone)
    except TypeError:
        return lambda: one


def can_go(one: object) -> bool:
    """Whether ``reference`` does not hold it."""
    return type(one).__weakrefoffset__ != 0


class Living(Generic[Kept]):
    """A value for each object, by which object it is and not by what it equals. With the object goes the
    value, which ``gone`` is told of then.
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
        """Of the objects that live, in the order in which they were put."""
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
        """As if it were gone; nobody is told."""
        self._kept.pop(id(one), None)

    def clear(self) -> None:
        self._kept = {}

    def _drop(self, key: int) -> None:
        found = self._kept.pop(key, None)
        if found is not None:
            self._gone(found[1])
