"""The data set that samples come from, behind torch's own Subsets, which only choose among them."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any


def whole_numbers(indices: Sequence[Any]) -> list[int] | None:
    """The indices as Python's integers; None if one is something else (a slice, a name, a mask)."""
    if all(type(index) is int for index in indices):
        return list(indices)
    found = []
    index: Any
    for index in indices:
        kind = bool if isinstance(index, bool) else getattr(index, "dtype", "")
        if kind is bool or str(kind).endswith("bool") or getattr(index, "ndim", None):
            return None
        try:
            found.append(operator.index(index))
        except TypeError:
            return None
    return found


@dataclass(frozen=True)
class Rows:
    """Samples of ``base``, chosen by ``subsets``, outermost first. They are read each time: a script may
    choose others.
    """

    base: Any
    subsets: tuple[Any, ...]

    def places(self, indices: Sequence[Any]) -> list[int] | None:
        """The base's indices; None if unknown, or if there is no base."""
        for subset in self.subsets:
            try:
                indices = [subset.indices[index] for index in indices]
            except (LookupError, TypeError):
                return None
        return whole_numbers(indices)


def rows_of(torch: ModuleType, dataset: Any) -> Rows:
    """The data set behind torch's own Subsets, with these Subsets."""
    data, subsets = torch.utils.data, []
    while is_plain_subset(data, dataset):
        subsets.append(dataset)
        dataset = dataset.dataset
    return Rows(dataset, tuple(subsets))


def is_plain_subset(data: Any, dataset: object) -> bool:
    """``data``: torch.utils.data."""
    if not isinstance(dataset, data.Subset):
        return False
    kind = type(dataset)
    return bool(kind.__getitem__ is data.Subset.__getitem__ and kind.__getitems__ is data.Subset.__getitems__)
