"""A data set whose pictures become tensors late, as a batch: a shallow copy of the script's own.

It searches the transforms that a data set, or one that it wraps, holds: a list of them that ends with those
that turn pictures into tensors (torchvision's ``Compose``), such a transform alone, and torchvision's pair of
transforms for a picture and its target.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import ModuleType, SimpleNamespace
from typing import Any

from .conversions import tail_of
from .late_pictures import Late

NOT_LAST = "the transforms of {} do not end with those that turn pictures into tensors"
_DEPTH = 8  # data sets within each other


class LateDataset:
    """``copy`` makes samples with Pixels instead of tensors, using ``lates``. ``copied``: how parts of the
    data set are copied. Raises LookupError if there is nothing to delay.
    """

    def __init__(self, torch: ModuleType, dataset: object, copied: Callable[[Any], Any] = copy.copy) -> None:
        self.dataset = dataset
        self._copy = copied
        self.lates: list[Late] = []
        self._torch = torch
        self._parts: list[object] = []  # that the copy was made from
        made = self._dataset(dataset, _DEPTH)
        if made is None:
            raise LookupError(NOT_LAST.format(type(dataset).__name__))
        self.copy: Any = made
        self._seen = list(self._now())

    @property
    def is_as_it_was(self) -> bool:
        """Whether the script's data set and its transforms hold the objects that they held."""
        return same_objects(list(self._now()), self._seen)

    @property
    def transforms(self) -> list[object]:
        """The delayed transforms."""
        return [one for late in self.lates for one in late.tail]

    @property
    def tails(self) -> list[object]:
        """The delayed transforms, with what they hold."""
        return [held for one in self.transforms for held in (one, *_held_by(one))]

    def _now(self) -> Iterator[object]:
        for part in self._parts:
            held = getattr(part, "transforms", None)
            yield from (part, *_held_by(part), *(held if isinstance(held, list) else ()))
        yield from self.tails

    # ---- copies
    def _dataset(self, dataset: Any, depth: int) -> Any:
        """A copy, or None if there is nothing to delay."""
        if not depth or not hasattr(dataset, "__dict__"):
            return None
        values = {name: self._transform(value) for name, value in vars(dataset).items()}
        if all(value is None for value in values.values()):
            values = self._wrapped(vars(dataset), depth - 1)
        return self._copied(dataset, values)

    def _wrapped(self, held: Mapping[str, Any], depth: int) -> dict[str, Any]:
        """Copies of the data sets that torch's Subset or ConcatDataset wraps."""
        several = held.get("datasets")
        if isinstance(several, list):
            copies = [self._dataset(one, depth) for one in several]
            return {"datasets": copies if all(one is not None for one in copies) else None}
        return {"dataset": self._dataset(held.get("dataset"), depth)}

    # ---- transforms
    def _transform(self, value: Any) -> Any:
        if tail_of([value]):
            return self._late([value])
        transforms = getattr(value, "transforms", None)
        if isinstance(transforms, (list, tuple)):
            return self._list(value, transforms)
        if type(value).__name__ == "StandardTransform" and hasattr(value, "__dict__"):
            return self._copied(value, {name: self._transform(one) for name, one in vars(value).items()})
        return None

    def _list(self, value: Any, transforms: Any) -> Any:
        in_turn = callable(value) and hasattr(value, "__dict__")
        if not (transforms and in_turn) or type(value).__name__.startswith("Random"):
            return None
        begin = len(transforms) - max(1, tail_of(transforms))
        last = self._late(transforms[begin:]) if tail_of(transforms) else self._transform(transforms[-1])
        return None if last is None else self._copied(value, {"transforms": [*transforms[:begin], last]})

    def _late(self, tail: Any) -> Late:
        """One object per transforms object: a data set may hold them twice."""
        for late in self.lates:
            if same_objects(late.tail, tail):
                return late
        self.lates.append(Late(self._torch, tail))
        return self.lates[-1]

    def _copied(self, value: Any, others: dict[str, Any]) -> Any:
        others = {name: other for name, other in others.items() if other is not None}
        if not others:
            return None
        self._parts.append(value)
        made = self._copy(value)
        vars(made).update(others)
        return made


def same_objects(a: Sequence[object], b: Sequence[object]) -> bool:
    """Whether both hold the same objects, by identity, in the same order."""
    return len(a) == len(b) and all(x is y for x, y in zip(a, b, strict=True))


def _held_by(value: object) -> list[object]:
    return list(vars(value).values()) if hasattr(value, "__dict__") else []


def puts_off(torch: ModuleType, dataset: object) -> bool:
    """Whether there is something to delay; copies nothing of the script's."""
    try:
        return bool(LateDataset(torch, dataset, copied=lambda value: SimpleNamespace()).lates)
    except Exception:  # of the script's own objects
        return False
