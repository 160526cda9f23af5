"""Samples of a cache that are made several at once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
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


# ---- an evaluation reads in order
class Many(Rows):
    def __len__(self) -> int:
        return 2000


@pytest.fixture(autouse=True)
def _two_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hasten.inside.samples.sample_cache.cores", lambda: 2)


def read_in_order(cache: Cache, until: int, each: int = 64) -> list[int]:
    found: list[Any] = []
    for first in range(0, until, each):
        found += cache.several(range(first, min(first + each, until)))
    return [int(sample[0]) for sample in found]


def test_what_a_pass_in_order_will_read_is_made_ahead() -> None:
    rows = Many()
    cache = cache_of(rows)
    assert read_in_order(cache, 320) == list(range(320))
    assert len(rows.asked) == 5 * 256, "four times as many as were read"
    assert read_in_order(cache, 2000) == list(range(2000))
    assert set(rows.asked) == set(range(2000))
    assert len(rows.asked) < 2000 + 20, "each once, and some are compared again"


def test_what_cannot_be_done_in_several_processes_is_no_error_of_the_scripts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def no_more_processes(*_: object) -> None:
        raise BlockingIOError("Resource temporarily unavailable")

    monkeypatch.setattr("hasten.inside.samples.sample_cache.made_in_parallel", no_more_processes)
    rows = Many()
    cache = cache_of(rows)
    assert read_in_order(cache, 640) == list(range(640))
    assert not cache.stale
    assert rows.asked == list(range(640))


@pytest.mark.parametrize("thread", [True, False])
def test_nothing_is_made_ahead_in_a_thread_or_on_one_core(
    thread: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = Many()
    cache = cache_of(rows)
    if thread:
        with ThreadPoolExecutor(1) as pool:
            assert pool.submit(read_in_order, cache, 640).result() == list(range(640))
    else:
        monkeypatch.setattr("hasten.inside.samples.sample_cache.cores", lambda: 1)
        assert read_in_order(cache, 640) == list(range(640))
    assert rows.asked == list(range(640))


def test_a_pass_in_another_order_is_not_run_ahead_of() -> None:
    rows = Many()
    cache = cache_of(rows)
    for first in range(1000, 0, -100):
        cache.several([first, first + 1])
    assert len(rows.asked) == 20


def test_a_sample_that_cannot_be_made_is_the_scripts_to_see_where_it_asks_for_it() -> None:
    class Broken(Many):
        def __getitem__(self, index: int) -> torch.Tensor:
            if index == 700:
                raise OSError("truncated")
            return super().__getitem__(index)

    rows = Broken()
    cache = cache_of(rows)
    assert read_in_order(cache, 640) == list(range(640))
    with pytest.raises(OSError, match="truncated"):
        read_in_order(cache, 704)
    assert not cache.stale


def test_one_made_ahead_that_draws_random_numbers_draws_them_where_the_script_asks_for_it() -> None:
    rows, plain = Many(frozenset({700})), Many(frozenset({700}))
    cache = cache_of(rows)
    torch.manual_seed(1)
    found = read_in_order(cache, 640)
    before = torch.rand(1)
    drawn = cache.several([700])[0]
    torch.manual_seed(1)
    assert before == torch.rand(1)
    assert torch.equal(plain[700], drawn)  # type: ignore[arg-type]
    assert found == list(range(640))
    assert "random numbers" in cache.stale
