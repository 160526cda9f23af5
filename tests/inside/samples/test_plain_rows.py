"""Which data sets of a script's own hold their samples as rows of tensors."""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch
from torch.utils.data import Dataset

from hasten.inside.samples.plain_rows import tensors_in_rows

DRAWN: list[int] = []


class Held(Dataset[Any]):
    """``self.x`` and ``self.y``, and what most scripts have besides."""

    def __init__(self) -> None:
        self.x, self.y = torch.rand(6, 3), torch.arange(6)
        self.transform: Any = None
        self.limit = 3

    def __len__(self) -> int:
        return 6


class Pairs(Held):
    def __getitem__(self, index: int) -> Any:
        """With a docstring."""
        return self.x[index], self.y[index]


class ByName(Held):
    def __getitem__(self, i: int) -> Any:
        inputs = self.x[i]
        target = self.y[i]
        return [target, inputs, target]


class WithTransform(Held):
    def __getitem__(self, index: int) -> Any:
        inputs, target = self.x[index], self.y[index]
        if self.transform is not None:
            inputs = self.transform(inputs)
        if self.transform:
            target = self.transform(target)
        return inputs, target


class Inherits(Pairs):
    pass


class Single(Held):
    def __getitem__(self, index: int) -> Any:
        return self.x[index]


class Named(Held):
    def __getitem__(self, index: int) -> Any:
        item = {"labels": self.y[index]}
        item["inputs"] = self.x[index]
        return item


@pytest.mark.parametrize(
    ("kind", "names", "layout"),
    [
        (Pairs, ["x", "y"], ()),
        (Inherits, ["x", "y"], ()),
        (ByName, ["y", "x", "y"], ()),
        (WithTransform, ["x", "y"], ()),
        (Single, ["x"], None),
        (Named, ["y", "x"], ("labels", "inputs")),
    ],
)
def test_rows_that_are_returned_as_they_are(
    kind: type[Held], names: list[str], layout: tuple[str, ...] | None
) -> None:
    dataset = kind()
    found, how = tensors_in_rows(dataset)
    assert how == layout
    assert [id(one) for one in found] == [id(getattr(dataset, name)) for name in names]


def test_it_is_asked_anew_each_time() -> None:
    dataset = WithTransform()
    assert tensors_in_rows(dataset)[0]
    dataset.transform = abs
    assert not tensors_in_rows(dataset)[0]
    dataset.transform, dataset.y = None, torch.zeros(6)
    assert tensors_in_rows(dataset)[0][1] is dataset.y
    del dataset.y
    assert not tensors_in_rows(dataset)[0]


def of(source: str, **names: Any) -> Any:
    """A data set whose ``__getitem__`` has this body."""
    space: dict[str, Any] = {"Held": Held, "random": random, "torch": torch, "DRAWN": DRAWN, **names}
    exec(f"class Other(Held):\n    def __getitem__(self, index):\n        {source}", space)
    return space["Other"]()


@pytest.mark.attack("truth")
@pytest.mark.parametrize(
    "source",
    [
        "return ()",
        "return {}",
        "return None",
        "return self.x",
        "return (self.x[index], (self.y[index],))",
        "return {self.x[index]}",
        "return {'x': self.x[index], 'y': 3}",
        "return {self.limit: self.x[index]}",
        "return self.x[index], index",
        "return self.x[index], 1.0",
        "return self.x, self.y[index]",
        "return self.x[-index], self.y[index]",
        "return self.x[index + 1], self.y[index]",
        "return self.x[0], self.y[index]",
        "return self.x[index : index + 2], self.y[index]",
        "return self.x[index] / 2, self.y[index]",
        "return self.x[index].float(), self.y[index]",
        "return self.x[self.y[index]], self.y[index]",
        "return (self.x if index else self.y)[index], self.y[index]",
        "return self.x[index], self.y[index] if index == 2 else self.x[index]",
        "return self.x[index], self.y[index] if f'{index}' else self.x[index]",
        "return self.x[index], self.y[index] if index in (1, 2) else self.x[index]",
        "return self.x[index], self.y[index] if self.x is self.x else self.x[index]",
        "return self.x[index], self.y[index] if self.limit else self.x[index]",
        "return self.x[index], self.y[index] if random.random() < 0.5 else self.y[index]",
        "DRAWN.append(1); return self.x[index], self.y[index]",
        "self.limit = 4; return self.x[index], self.y[index]",
        "self.limit += 1; return self.x[index], self.y[index]",
        "self.y[index] = 0; return self.x[index], self.y[index]",
        "row = self.x[index]; row += 1; return row, self.y[index]",
        "yield self.x[index]",
        "return tuple(part[index] for part in (self.x, self.y))",
        "return (lambda: self.x[index])(), self.y[index]",
        "assert index < 6; return self.x[index], self.y[index]",
        "import torch; return self.x[index], self.y[index]",
        "return self.missing[index], self.y[index]",
        "return self.transform[index], self.y[index]",
        "return self.x[index], self.__class__[index]",
        "return self.x[index], self.__dict__[index]",
        "raise IndexError",
    ],
)
def test_what_does_more_is_not_taken_for_rows(source: str) -> None:
    state = random.getstate()
    assert not tensors_in_rows(of(source))[0]
    assert not DRAWN
    assert random.getstate() == state, "nothing of the script runs"


@pytest.mark.parametrize("caught", ["except Exception", "except BaseException", "finally"])
def test_errors_that_are_caught(caught: str) -> None:
    source = f"""
        try:
            return self.x[index + 1], self.y[index]
        {caught}:
            return self.x[index], self.y[index]"""
    assert not tensors_in_rows(of(source))[0]


def test_arguments_that_nobody_gives_and_functions_around_it() -> None:
    class Other(Held):
        def __getitem__(self, index: int, shift: int = 1) -> Any:
            return self.x[index], self.y[index]

    def counted(function: Any) -> Any:
        def called(self: Any, index: int) -> Any:
            DRAWN.append(index)
            return function(self, index)

        return called

    class Wrapped(Held):
        __getitem__ = counted(Pairs.__getitem__)

    class Reads(Pairs):
        def __getattribute__(self, name: str) -> Any:
            return super().__getattribute__(name)

    class Property(Pairs):
        @property
        def z(self) -> Any:
            return self.x * 2

        def __getitem__(self, index: int) -> Any:
            return self.z[index], self.y[index]

    for kind in (Other, Wrapped, Reads, Property, Held):
        assert not tensors_in_rows(kind())[0], kind
    assert not tensors_in_rows([1, 2])[0]
    assert not DRAWN
