"""What samples are made of is looked at where a script keeps it: any of it that changes is named."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy
import pytest
import torch
from torch.utils.data import Dataset, Subset

from hasten.inside.samples.visible_state import difference, visible_state

strength = 1.0
settings = SimpleNamespace(angle=3)


def by_global(value: float) -> float:
    return value * strength + helped()


def helped() -> float:
    return float(settings.angle)


class Transform:
    __slots__ = ("size",)
    kind = "plain"

    def __init__(self) -> None:
        self.size = 3


class Data(Dataset[Any]):
    def __init__(self) -> None:
        self.epoch = 0
        self.labels = list(range(300))
        self.paths = [(Path("a"), {"label": torch.zeros(2)}) for _ in range(40)]
        self.array = numpy.zeros(300)
        self.tensor = torch.zeros(300)
        self.transform = Transform()
        self.numbers = random.Random(1)
        self.generator = numpy.random.default_rng(1)
        self.stream = torch.Generator().manual_seed(1)
        self.function = partial(by_global, value=1.0)
        factor = [1.0]
        self.factor, self.closure = factor, lambda value: value * factor[0]
        self.myself = self

    def __len__(self) -> int:
        return 300


def set_global(data: Data) -> None:
    global strength
    strength += 1.0


def turn(data: Data) -> None:
    settings.angle += 1


def set_kind(data: Data) -> None:
    Transform.kind += "!"


CHANGES: dict[str, Callable[[Data], Any]] = {
    "epoch": lambda data: setattr(data, "epoch", 1),
    "labels": lambda data: data.labels.__setitem__(250, -1),
    "paths": lambda data: data.paths[30][1]["label"].add_(1),
    "array": lambda data: data.array.__setitem__(7, 1e-9),
    "tensor": lambda data: data.tensor[5].fill_(2),
    "transform": lambda data: setattr(data.transform, "size", 4),
    "numbers": lambda data: data.numbers.random(),
    "generator": lambda data: data.generator.random(),
    "stream": lambda data: torch.rand(1, generator=data.stream),
    "closure": lambda data: data.factor.__setitem__(0, 2.0),
    "a global": set_global,
    "a global that a function names that is called": lambda data: setattr(
        settings, "angle", settings.angle + 1
    ),
    "a class": set_kind,
    "another attribute": lambda data: setattr(data, "more", 1),
}


@pytest.mark.parametrize("name", CHANGES)
@pytest.mark.parametrize("wrapped", [False, True])
def test_what_changes_is_seen(name: str, wrapped: bool) -> None:
    data = Data()
    dataset = Subset(data, [1, 2]) if wrapped else data
    before = visible_state(dataset, None, None)
    assert difference(before, visible_state(dataset, None, None)) == ""
    CHANGES[name](data)
    assert difference(before, visible_state(dataset, None, None))


def test_what_changed_is_named() -> None:
    data = Data()
    before = visible_state(data)
    data.epoch = 3
    assert difference(before, visible_state(data)) == "Data.epoch"


def test_a_function_besides_the_dataset_counts() -> None:
    before = visible_state([1], by_global)
    set_global(Data())
    assert difference(before, visible_state([1], by_global)) == "by_global (0)"


def test_minus_one_is_not_minus_two() -> None:
    """Python's hashes of the two are equal."""
    assert visible_state([-1]) != visible_state([-2])
    assert visible_state([True]) != visible_state([1])


def test_an_array_too_large_to_be_read_whole_is_looked_at_in_places() -> None:
    data = SimpleNamespace(array=numpy.zeros((3000, 2048), dtype=numpy.float32))
    before = visible_state(data)
    assert visible_state(data) == before
    data.array += 1
    assert difference(before, visible_state(data)) == "SimpleNamespace.array"


def test_a_file_that_was_opened_on_first_use_counts_as_nothing(tmp_path: Path) -> None:
    import zipfile

    data = SimpleNamespace(file=None, name="x")
    before = visible_state(data)
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as data.file:
        assert difference(before, visible_state(data)) == ""
