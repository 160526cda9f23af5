"""Which data sets of a script's own hold their samples as rows of tensors."""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch
from torch.utils.data import Dataset

from hasten.inside.samples.plain_rows import Layout, Part, parts_in_rows

DRAWN: list[int] = []


def parts_of(dataset: Any) -> tuple[Part, ...]:
    return parts_in_rows(torch, dataset)[0]


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


class Windows(Held):
    def __getitem__(self, index: int) -> Any:
        return self.x[index : index + self.limit], self.y[self.limit + index]


class LastWindows(Held):
    def __getitem__(self, index: int) -> Any:
        end = index + self.limit
        return {"inputs": self.x[end - self.limit : end], "targets": self.x[index + 1 : end + 1]}


class Typed(Held):
    def __getitem__(self, index: int) -> Any:
        return self.x[index].double(), self.y[index].float()


class OfArrays(Held):
    def __getitem__(self, index: int) -> Any:
        x = torch.tensor(self.x[index], dtype=torch.float)
        return x, torch.from_numpy(self.x[index]).long(), torch.FloatTensor(self.x[index])


class AsTensors(Held):
    def __getitem__(self, index: int) -> Any:
        return torch.as_tensor(self.x[index]), torch.as_tensor(self.y[index], dtype=torch.int64)


@pytest.mark.parametrize(
    ("kind", "parts", "layout"),
    [
        (Pairs, [Part("x"), Part("y")], ()),
        (Inherits, [Part("x"), Part("y")], ()),
        (ByName, [Part("y"), Part("x"), Part("y")], ()),
        (WithTransform, [Part("x"), Part("y")], ()),
        (Single, [Part("x")], None),
        (Named, [Part("y"), Part("x")], ("labels", "inputs")),
        (Windows, [Part("x", 0, 3), Part("y", 3)], ()),
        (LastWindows, [Part("x", 0, 3), Part("x", 1, 3)], ("inputs", "targets")),
        (Typed, [Part("x", kind="float64"), Part("y", kind="float32")], ()),
        (
            OfArrays,
            [
                Part("x", kind="float32", of_array=True),
                Part("x", kind="int64", of_array=True),
                Part("x", kind="float32", of_array=True, of_several=True),
            ],
            (),
        ),
        (AsTensors, [Part("x"), Part("y", kind="int64")], ()),
    ],
)
def test_rows_that_are_returned_as_they_are(kind: type[Held], parts: list[Part], layout: Layout) -> None:
    assert parts_in_rows(torch, kind()) == (tuple(parts), layout)


def test_it_is_asked_anew_each_time() -> None:
    dataset = WithTransform()
    assert parts_of(dataset)
    dataset.transform = abs
    assert not parts_of(dataset)
    dataset.transform = None
    assert parts_of(dataset)
    del dataset.y
    assert not parts_of(dataset)
    windows = Windows()
    windows.limit = 2
    assert parts_of(windows) == (Part("x", 0, 2), Part("y", 2))
    windows.limit = 1
    assert parts_of(windows) == (Part("x", 0, 1), Part("y", 1))
    windows.limit = True
    assert not parts_of(windows), "True is 1 and no number of rows"


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
        "return {self.x: self.x[index]}",
        "return self.x[index], index",
        "return self.x[index], 1.0",
        "return self.x, self.y[index]",
        "return self.x[-index], self.y[index]",
        "return self.x[index + 1.5], self.y[index]",
        "return self.x[index + index], self.y[index]",
        "return self.x[index * 2], self.y[index]",
        "return self.x[index + True], self.y[index]",
        "return self.x[0], self.y[index]",
        "return self.x[0 : index], self.y[index]",
        "return self.x[index : 9], self.y[index]",
        "return self.x[index :], self.y[index]",
        "return self.x[: index], self.y[index]",
        "return self.x[index : index], self.y[index]",
        "return self.x[index : index + 4 : 2], self.y[index]",
        "return self.x[index, 0], self.y[index]",
        "return self.x[index][0], self.y[index]",
        "return self.x[index : index + 2][1:], self.y[index]",
        "return self.x[index] / 2, self.y[index]",
        "return self.x[index].sum(), self.y[index]",
        "return self.x[index].float().long(), self.y[index]",
        "return self.x[index].float, self.y[index]",
        "return self.x[index].to('cpu'), self.y[index]",
        "return torch.rand(3), self.y[index]",
        "return torch.tensor(index), self.y[index]",
        "return torch.tensor([self.limit]), self.y[index]",
        "return torch.tensor(self.x), self.y[index]",
        "return torch.tensor(torch.tensor(self.x[index])), self.y[index]",
        "return torch.tensor(self.x[index].float()), self.y[index]",
        "return torch.tensor(self.x[index], dtype=None or float), self.y[index]",
        "return torch.tensor(self.x[index], requires_grad=True), self.y[index]",
        "return torch.tensor(self.x[index], dtype=self.transform or self.x), self.y[index]",
        "return torch.from_numpy(self.x[index], torch.float32), self.y[index]",
        "return torch.no_grad(), self.y[index]",
        "torch.manual_seed(0); return self.x[index], self.y[index]",
        "global DRAWN; DRAWN = torch; return self.x[index], self.y[index]",
        "return self.x[self.y[index]], self.y[index]",
        "return (self.x if index else self.y)[index], self.y[index]",
        "return self.x[index], self.y[index] if index == 2 else self.x[index]",
        "return self.x[index], self.y[index] if f'{index}' else self.x[index]",
        "return self.x[index], self.y[index] if index in (1, 2) else self.x[index]",
        "return self.x[index], self.y[index] if self.x is self.x else self.x[index]",
        "return self.x[index], self.y[index] if self.y else self.x[index]",
        "return self.x[index], self.limit",
        "return self.x[index], self.y[index] if random.random() < 0.5 else self.y[index]",
        "DRAWN.append(1); return self.x[index], self.y[index]",
        "self.limit = 4; return self.x[index], self.y[index]",
        "self.values = 4; return self.x[index], self.y[index]",
        "self.offset = 4; return self.x[index], self.y[index]",
        "print('here'); return self.x[index], self.y[index]",
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
    assert not parts_of(of(source))
    assert not DRAWN
    assert random.getstate() == state, "nothing of the script runs"


@pytest.mark.parametrize("caught", ["except Exception", "except BaseException", "finally"])
def test_errors_that_are_caught(caught: str) -> None:
    source = f"""
        try:
            return self.x[index] + 1, self.y[index]
        {caught}:
            return self.x[index], self.y[index]"""
    assert not parts_of(of(source))


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

    class Shadowed(Property):
        def __init__(self) -> None:
            super().__init__()
            self.__dict__["z"] = self.x

    for kind in (Other, Wrapped, Reads, Property, Shadowed, Held):
        assert not parts_of(kind()), kind
    assert not parts_of([1, 2])
    assert not DRAWN
