"""The batches that a script's sampler draws, regrouped by similar sample length."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

Batch = list[Any]
"""Indices of samples, as the sampler gives them."""


def regrouped(batches: Sequence[Batch], lengths: Sequence[int]) -> list[Batch]:
    """The same samples in as many batches of the same sizes, each with samples of similar length, in random
    order. A smaller last batch stays as it is. Equal ``batches`` give equal results; nothing global is drawn.
    """
    if not batches:
        return []
    size = len(batches[0])
    whole = [batch for batch in batches if len(batch) == size]
    rest = [batch for batch in batches if len(batch) != size]
    samples = sorted((index for batch in whole for index in batch), key=lambda index: lengths[int(index)])
    made = [samples[start : start + size] for start in range(0, len(samples), size)]
    random.Random(repr([int(index) for index in batches[0]])).shuffle(made)
    return made + rest


def columns_of(batches: Sequence[Batch], lengths: Sequence[int]) -> int:
    """Total columns if batches are padded to their longest sample."""
    return sum(len(batch) * max(lengths[int(index)] for index in batch) for batch in batches)


@dataclass
class Grouping:
    """The results for one data set's batches. ``together``: batches that are sorted at a time."""

    lengths: Sequence[int]
    together: int
    seconds: float = 0.0  # for reading the lengths
    batches: int = 0
    columns: int = 0  # of batches after regrouping, and as drawn
    columns_drawn: int = 0
    why_not: str = ""  # batches are left as they are drawn from here on

    def of(self, batches: list[Batch]) -> list[Batch]:
        """These batches regrouped; unchanged if a sample is not known or one would come twice."""
        try:
            made = [] if self.why_not else regrouped(batches, self.lengths)
            if sorted(map(int, _flat(made))) != sorted(map(int, _flat(batches))):
                self.why_not = self.why_not or "samples would come more or less often than they were drawn"
                return batches
            self.columns += columns_of(made, self.lengths)
            self.columns_drawn += columns_of(batches, self.lengths)
        except Exception as error:  # unknown kind of index, or the data set has grown
            self.why_not = f"the samples that are drawn are not known: {type(error).__name__}: {error}"
            return batches
        self.batches += len(made)
        return made


def _flat(batches: Sequence[Batch]) -> list[Any]:
    return [index for batch in batches for index in batch]


class GroupedBatches:
    """Replaces a script's batch sampler. Everything except batches comes from the original."""

    def __init__(self, drawn: Any, grouping: Grouping) -> None:
        self._drawn = drawn
        self._grouping = grouping

    def __iter__(self) -> Iterator[Batch]:
        batches = iter(self._drawn)
        while several := list(islice(batches, self._grouping.together)):
            yield from self._grouping.of(several)

    def __len__(self) -> int:
        return len(self._drawn)

    def __getattr__(self, name: str) -> Any:
        if name == "_drawn":  # while being copied
            raise AttributeError(name)
        return getattr(self._drawn, name)
