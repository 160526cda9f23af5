"""Copies of batches are equal to them, and weigh no more than what is in them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from hasten.inside.samples.batch_copies import Copier
from hasten.inside.samples.columns import same_batch

LARGE = torch.arange(100_000.0).reshape(100, 1000)

BATCHES: dict[str, tuple[Callable[[], Any], int]] = {
    "rows of a large tensor": (lambda: {"x": LARGE[3:5], "y": [1, 2]}, 2 * 1000 * 4),
    "turned": (lambda: (LARGE[:2].t(), "name"), 2 * 1000 * 4),
    "a part of each row": (lambda: [LARGE[:3, :10]], (2 * 1000 + 10) * 4),
    "one number for all": (lambda: [torch.tensor(2.0).expand(50, 50)], 4),
    "none": (lambda: [LARGE[:0]], 0),
    "an array": (lambda: {"x": np.arange(1000)[::2]}, 500 * 8),
}


@pytest.mark.parametrize("name", BATCHES)
def test_a_view_is_copied_without_the_rest(name: str) -> None:
    make, weight = BATCHES[name]
    batch = make()
    copier = Copier(torch, batch)
    copied: Any = copier.copied()
    assert same_batch(copied, batch)
    for part in copied.values() if isinstance(copied, dict) else copied:
        if isinstance(part, torch.Tensor):
            assert part.untyped_storage().nbytes() <= weight
    plain = sum(len(part) * 28 for part in [batch["y"]]) if name.startswith("rows") else 0
    assert weight <= copier.nbytes <= weight + plain + 100


def test_what_is_one_in_a_batch_stays_one() -> None:
    whole = torch.zeros(6)
    batch = {"all": whole, "again": whole, "first": whole[:2], "own": torch.ones(3)}
    copier = Copier(torch, batch)
    copied: Any = copier.copied()
    copied["all"][0] = 5
    assert copied["again"] is copied["all"]
    assert copied["first"][0] == 5
    assert whole[0] == 0
    assert copier.nbytes == (6 + 3) * 4


def test_a_tensor_that_is_not_plain_keeps_what_it_is() -> None:
    weight = torch.ones(4, requires_grad=True)
    copied: Any = Copier(torch, [weight, torch.nn.Parameter(torch.ones(2))]).copied()
    assert copied[0].requires_grad
    assert type(copied[1]) is torch.nn.Parameter


@pytest.mark.parametrize(
    ("batch", "where"), [([torch.ones(2)], ""), ({"x": torch.ones(2, device="meta")}, "meta")]
)
def test_where_it_lies_is_told(batch: Any, where: str) -> None:
    assert Copier(torch, batch).elsewhere == where
