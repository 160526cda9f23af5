"""Samples of a cache that are made several at once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import Dataset

from hasten.inside.samples.sample_cache import Cache
from hasten.inside.samples.sample_room import SampleRoom
from hasten.inside.training import NotApplicable


class Rows(Dataset[Any]):
    """``noisy``: samples with these numbers get noise."""

    def __init__(self, noisy: frozenset[int] = frozenset()) -> None:
        self.noisy = noisy
        self.asked: list[int] = []

    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> torch.Tensor:
        self.asked.append(index)
        row = torch.full((2,), float(index))
        return row + torch.randn(2) if index in self.noisy else row


class Rare(Rows):
    """Some samples get noise from a generator of its own."""

    def __init__(self, noisy: frozenset[int] = frozenset()) -> None:
        super().__init__(noisy)
        self.generator = np.random.default_rng(1)

    def __getitem__(self, index: int) -> torch.Tensor:
        row = torch.full((2,), float(index))
        return row + float(self.generator.normal()) if index in self.noisy else row


def cache_of(rows: Rows) -> Cache:
    return Cache(rows, SampleRoom(2**30), 64)


def test_only_those_that_are_missing_are_made() -> None:
    rows = Rows()
    cache = cache_of(rows)
    first = cache.several([3, 1, 3])
    again = cache.several([1, 2, 3])
    assert [int(sample[0]) for sample in (*first, *again)] == [3, 1, 3, 1, 2, 3]  # type: ignore[index]
    assert rows.asked == [3, 1, 2]
    assert (cache.made, cache.hits) == (3, 3)


@pytest.mark.parametrize("before", [(), (1,)])
def test_one_that_draws_random_numbers_ends_the_cache_and_is_what_it_would_have_been(
    before: tuple[int, ...],
) -> None:
    rows, plain = Rows(frozenset({5})), Rows(frozenset({5}))
    cache = cache_of(rows)
    for index in before:
        cache.several([index])
    torch.manual_seed(1)
    found = cache.several([1, 5, 2])
    torch.manual_seed(1)
    expected = [plain[index] for index in (1, 5, 2)]
    assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))  # type: ignore[arg-type]
    assert "drew random numbers" in cache.stale
    torch.manual_seed(2)
    later = cache.several([5, 5])
    assert not torch.equal(*later)  # type: ignore[arg-type]


def test_one_that_draws_from_the_data_sets_own_generator_ends_the_cache_too() -> None:
    rows, plain = Rare(frozenset({5})), Rare(frozenset({5}))
    cache = cache_of(rows)
    for index in (1, 5, 5, 2, 5):
        found, expected = cache.several([index]), [plain[index]]
        assert torch.equal(found[0], expected[0])  # type: ignore[arg-type]
    assert "drew random numbers" in cache.stale


def test_where_filling_draws_from_the_data_sets_own_generator_it_is_put_back() -> None:
    rows, plain = Rare(frozenset({5})), Rare(frozenset({5}))
    cache = cache_of(rows)
    with pytest.raises(NotApplicable, match="draws random numbers"):
        cache.fill(torch)
    assert torch.equal(cache[5], plain[5])  # type: ignore[arg-type]
    assert "draws random numbers" in cache.stale
