"""How long samples are is told by their sequences, padded or not, and nothing is changed by asking."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import Dataset

from hasten.inside.random_state import fingerprint
from hasten.inside.samples import sample_lengths
from hasten.inside.samples.sample_lengths import lengths_of

COUNT = 20
LENGTHS = [3 + 7 * i % 11 for i in range(COUNT)]
WIDTH = 16


class Made(Dataset[Any]):
    """Samples by a function of the index."""

    def __init__(self, sample: Callable[[int], Any]) -> None:
        self.sample = sample
        self.asked = 0

    def __len__(self) -> int:
        return COUNT

    def __getitem__(self, index: int) -> Any:
        self.asked += 1
        return self.sample(index)


def words(index: int) -> Any:
    return torch.arange(LENGTHS[index]) * 7 % 5 + index % 2 + 1


def padded(index: int, value: int = 0) -> Any:
    ids = torch.full((WIDTH,), value)
    ids[: LENGTHS[index]] = words(index)
    return ids


def mask(index: int) -> Any:
    return (torch.arange(WIDTH) < LENGTHS[index]).long()


TOLD: dict[str, Callable[[int], Any]] = {
    "ids and a label": lambda i: (words(i), i % 2),
    "a list of ids": lambda i: {"input_ids": words(i).tolist(), "label": i % 2},
    "an array of ids": lambda i: (words(i).numpy(), i % 2),
    "words": lambda i: (["word"] * LENGTHS[i], ["tag"] * LENGTHS[i]),
    "padded ids": lambda i: (padded(i), i % 2),
    "padded ids and a mask": lambda i: {"input_ids": padded(i), "attention_mask": mask(i), "label": i % 2},
    "padded in a list": lambda i: {"input_ids": padded(i).tolist(), "label": i % 2},
    "as a tokenizer returns it": lambda i: {"input_ids": padded(i)[None], "attention_mask": mask(i)[None]},
    "labels of each word": lambda i: (padded(i), padded(i, -100)),
    "positions as well": lambda i: (padded(i), torch.arange(WIDTH)),
    "types as well": lambda i: (padded(i), torch.zeros(WIDTH, dtype=torch.long)),
    "features": lambda i: (torch.randn(LENGTHS[i], 4), i % 2),
    "a wave": lambda i: (np.ones(LENGTHS[i], np.float32), i % 2),
}


def told(sample: Callable[[int], Any], seconds: float = 20.0) -> tuple[str, list[int]]:
    return lengths_of(torch, Made(sample), COUNT, seconds)


@pytest.mark.parametrize("name", TOLD)
def test_the_lengths_of_samples(name: str) -> None:
    assert told(TOLD[name]) == ("", LENGTHS)


def test_the_lengths_of_texts() -> None:
    def text(index: int) -> Any:
        return index % 2, "some words " * LENGTHS[index]

    assert told(text) == ("", [11 * length for length in LENGTHS])
    assert told(lambda i: (words(i), "a " * (20 - LENGTHS[i]))) == ("", LENGTHS)


@pytest.mark.parametrize(
    ("sample", "reason"),
    [
        pytest.param(lambda i: (torch.zeros(3, 8, 8), i), "hold more than sequences", id="pictures"),
        pytest.param(
            lambda i: (torch.zeros(3, 8, 8 + i), words(i)), "hold more than sequences", id="boxes in pictures"
        ),
        pytest.param(lambda i: (torch.randn(8), i), "all of one length", id="features of one width"),
        pytest.param(lambda i: (float(i), "cat" * i), "no sequences were found", id="names"),
        pytest.param(lambda i: i, "no sequences were found", id="numbers"),
        pytest.param(lambda i: words(100), "reading a sample of Made failed: IndexError", id="failing"),
    ],
)
def test_samples_without_lengths_say_why(sample: Callable[[int], Any], reason: str) -> None:
    why_not, lengths = told(sample)
    assert reason in why_not
    assert lengths == []


def test_what_would_take_too_long_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sample_lengths, "_LOOKED_AT", 4)
    clock = iter(range(1000))
    monkeypatch.setattr(sample_lengths, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    why_not, lengths = sample_lengths._read(torch, Made(words), COUNT, 4.0)
    assert why_not == "reading all of Made for its lengths takes 5 s"
    assert lengths == []


def test_asking_changes_nothing_here() -> None:
    def drawing(index: int) -> Any:
        torch.rand(1)
        return words(index)

    dataset, before = Made(drawing), fingerprint(torch)
    assert lengths_of(torch, dataset, COUNT, 20.0) == ("", LENGTHS)
    assert fingerprint(torch) == before
    assert dataset.asked == 0
