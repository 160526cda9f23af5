"""Data sets that a script changes while it reads them: processes that read ahead have copies of their own.

Plain values are looked at: numbers, texts and flags among the attributes of a data set, of those it wraps and
of the script's own objects in them, such as transforms. They are compared when the 1st, 2nd, 4th, 8th, ...
batch of a pass has come, and at its end.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ...saying import say
from ..class_names import module_of
from ..internals.loaders import dataset_of
from ..living import Living
from .sampling_proof import chain
from .script_code import is_librarys

if TYPE_CHECKING:
    from torch.utils.data import DataLoader

    from ..internals.loaders import LoaderIterator

_PLAIN = (int, float, str, bool, type(None))
_MOST = 200  # attributes and elements that are looked at
_DEEPEST = 3  # objects within objects

Values = dict[str, object]


class _Pass:
    def __init__(self, values: Values, here: bool) -> None:
        self.values = values
        self.here = here
        self.given = 0

    @property
    def is_looked_at(self) -> bool:
        """After 1, 2, 4, 8, ... batches."""
        return self.given & (self.given - 1) == 0


class ReadAhead:
    """``changed``: why the script should read a data set itself, by data set."""

    def __init__(self) -> None:
        self.changed: Living[str] = Living()
        self._passes: weakref.WeakKeyDictionary[LoaderIterator, _Pass] = weakref.WeakKeyDictionary()

    def begins(self, iterator: LoaderIterator, here: bool = False) -> None:
        """``here``: this process reads, in place of the script's worker processes."""
        self._passes[iterator] = _Pass(plain_values(dataset_of(iterator)), here)

    def gave(self, iterator: LoaderIterator) -> None:
        one = self._passes.get(iterator)
        if one is not None:
            one.given += 1
            if one.is_looked_at:
                self._look(iterator, one)

    def ended(self, iterator: LoaderIterator) -> None:
        one = self._passes.pop(iterator, None)
        if one is not None:
            self._look(iterator, one)

    def why_not(self, loader: DataLoader[object]) -> str:
        """Why others should not read ahead for this loader; "" if nothing is known against it."""
        changed = self.changed.get(loader.dataset)
        return changed or ""

    @property
    def reasons(self) -> list[str]:
        return self.changed.values()

    def _look(self, iterator: LoaderIterator, one: _Pass) -> None:
        dataset = dataset_of(iterator)
        now = plain_values(dataset)
        name = next((name for name in now if _differ(one.values.get(name, now[name]), now[name])), "")
        if name and self.changed.get(dataset) is None:
            words = _words(name, one.here)
            self.changed.put(dataset, words)
            value = "new" if one.here else "former"
            say(
                f"hasten: {words}: this epoch has samples that were made with its {value} value. "
                "From the next epoch on the script reads its data itself"
            )


def _differ(then: object, now: object) -> bool:
    return now is not then and now != then  # a NaN is not equal to itself


def _words(changed: str, here: bool) -> str:
    seen = "its worker processes see from the next one on" if here else "processes that read ahead do not see"
    return f"the script changes {changed} within an epoch, which {seen}"


def plain_values(dataset: object) -> Values:
    """By names such as ``Images.difficulty``."""
    values: Values = {}
    met: set[int] = set()
    for part in chain(dataset):
        for name, value in _within(part, type(part).__name__, _DEEPEST, met):
            values[name] = value
            if len(values) == _MOST:
                return values
    return values


def _within(owner: object, path: str, depth: int, met: set[int]) -> Iterator[tuple[str, object]]:
    if id(owner) in met:
        return
    met.add(id(owner))
    for name, value in list(getattr(owner, "__dict__", {}).items())[:_MOST]:
        yield from _told(value, f"{path}.{name}", depth, met)


def _told(value: object, path: str, depth: int, met: set[int]) -> Iterator[tuple[str, object]]:
    if isinstance(value, _PLAIN):
        yield path, value
    elif not depth:
        return
    elif isinstance(value, (list, tuple)) and len(value) <= _MOST:
        for number, one in enumerate(value):
            yield from _told(one, f"{path}[{number}]", depth - 1, met)
    elif not is_librarys(module_of(type(value))):
        yield from _within(value, path, depth - 1, met)
