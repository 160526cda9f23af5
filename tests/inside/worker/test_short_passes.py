"""Passes over loaders that end early."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, IterableDataset

from hasten.inside.seams import Seams
from hasten.inside.worker.short_passes import ShortPasses


@pytest.fixture
def shorter() -> Iterator[None]:
    """To a fifth."""
    seams = Seams(lambda error: None)
    ShortPasses(0.2).install(seams)
    yield
    seams.undo_all()


def rows(count: int = 100) -> Any:
    return torch.utils.data.TensorDataset(torch.arange(count))


@pytest.mark.parametrize("workers", [{}, {"num_workers": 2}, {"num_workers": 1, "persistent_workers": True}])
@pytest.mark.usefixtures("shorter")
def test_each_pass_gives_the_same_share(workers: dict[str, Any]) -> None:
    loader = DataLoader(rows(), batch_size=4, **workers)
    for _ in range(2):
        assert [len(batch) for (batch,) in loader] == [4] * 5
    assert len(loader) == 25


@pytest.mark.usefixtures("shorter")
def test_a_pass_gives_one_batch_at_least() -> None:
    assert len(list(DataLoader(rows(2)))) == 1


def test_the_order_is_drawn_as_usual(shorter: None) -> None:
    torch.manual_seed(3)
    loader = DataLoader(rows(), batch_size=4, shuffle=True)
    first = [int(n) for (batch,) in loader for n in batch]
    after = torch.get_rng_state()
    torch.manual_seed(3)
    torch.empty((), dtype=torch.int64).random_()  # the base seed of a pass
    seed = int(torch.empty((), dtype=torch.int64).random_().item())
    order = torch.randperm(100, generator=torch.Generator().manual_seed(seed)).tolist()
    assert first == order[:20]
    assert torch.equal(after, torch.get_rng_state())


class Stream(IterableDataset[int]):
    def __iter__(self) -> Iterator[int]:
        return iter(range(10))


@pytest.mark.usefixtures("shorter")
def test_what_has_no_length_is_left_as_it_is() -> None:
    assert len(list(DataLoader(Stream(), batch_size=None))) == 10
    assert len(list(DataLoader(Stream(), batch_size=2))) == 5
