"""Samples that are the data set's own objects are told from those that are made anew."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from hasten.inside.samples.own_objects import own_objects

LISTS = [[1, 2], [3]]
TENSOR, ARRAY, LABELS = torch.ones(2, 3), np.ones((2, 3)), torch.ones(2)

OWN: dict[str, Callable[[int], Any]] = {
    "a list": lambda i: LISTS[i],
    "a list in a new dict": lambda i: {"ids": LISTS[i], "name": "a"},
    "a row of a tensor": lambda i: (TENSOR[i], i),
    "a row of an array": lambda i: [ARRAY[i]],
}
NEW: dict[str, Callable[[int], Any]] = {
    "copies of lists": lambda i: list(LISTS[i]),
    "a computed row": lambda i: (TENSOR[i] * 2, ARRAY[i] * 2),
    "a label from a tensor": lambda i: (TENSOR[i] + 1, LABELS[i]),
    "text and numbers": lambda i: ("text", 1, 2.0, None, b"bytes", (1, 2)),
    "nothing in it": lambda i: (torch.empty(0), np.empty(0)),
    "sparse": lambda i: TENSOR.to_sparse(),
}


class Made:
    def __init__(self, make: Callable[[int], Any]) -> None:
        self.make = make

    def __getitem__(self, index: int) -> Any:
        return self.make(index)


@pytest.mark.parametrize("kind", OWN)
def test_the_data_sets_own_objects_are_named(kind: str) -> None:
    assert "samples of Made are objects that it holds itself" in own_objects(torch, Made(OWN[kind]), 2)


@pytest.mark.parametrize("kind", NEW)
def test_samples_that_are_made_anew_may_be_copied(kind: str) -> None:
    assert own_objects(torch, Made(NEW[kind]), 2) == ""
