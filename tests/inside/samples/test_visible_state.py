"""What samples are made of is looked at where a script keeps it: any of it that changes is named."""

from __future__ import annotations

import multiprocessing
import random
from array import array
from collections import deque
from collections.abc import Callable
from functools import cache, lru_cache, partial
from itertools import cycle
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy
import pytest
import torch
from torch.utils.data import Dataset, Subset

from hasten.inside.samples.contents import rows_digest
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


class Meta(type):
    """As Cython compiles one: where a class says its module, it has a descriptor for the classes it makes."""


Meta.__module__ = property(lambda kind: __name__)  # type: ignore[assignment]


class MadeByMeta(metaclass=Meta):
    pass


def test_a_class_of_a_compiled_metaclass_hides_nothing_else() -> None:
    data = Data()
    data.kept = MadeByMeta  # type: ignore[attr-defined]
    before = visible_state(data)
    assert difference(before, visible_state(data)) == ""
    set_kind(data)
    assert difference(before, visible_state(data)) != ""


@pytest.mark.parametrize("kind", [numpy.float32, numpy.ndarray, torch.Tensor, array, cycle, random.Random])
def test_a_class_is_not_taken_for_what_it_makes(kind: type) -> None:
    """Many data sets keep the type that their samples are to have."""
    data = Data()
    data.dtype = kind  # type: ignore[attr-defined]
    before = visible_state(data)
    assert difference(before, visible_state(data)) == ""
    data.dtype = float  # type: ignore[attr-defined]
    assert difference(before, visible_state(data)) == "Data.dtype"


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


@cache
def remembered(number: int) -> int:
    return number


def by_cache(number: int) -> int:
    return remembered(number)


class Remembering:
    @cache  # noqa: B019 - as scripts do
    def __getitem__(self, number: int) -> int:
        return number


class Tags(set[int]):
    pass


class Counting:
    def __init__(self) -> None:
        self.at = 0

    def __next__(self) -> int:
        return self.at


CONTAINERS: dict[str, tuple[Callable[[], Any], Callable[[Any], Any]]] = {
    "deque": (lambda: deque([1, 2], maxlen=2), lambda held: held.append(3)),
    "deque of many": (lambda: deque(range(300), maxlen=300), lambda held: held.append(3)),
    "bytearray": (lambda: bytearray(10), lambda held: held.__setitem__(3, 1)),
    "array.array": (lambda: array("d", [0.0] * 10), lambda held: held.__setitem__(3, 1.0)),
    "a set's subclass": (lambda: Tags([1]), lambda held: held.add(2)),
    "its attribute": (lambda: Tags([1]), lambda held: setattr(held, "more", 1)),
    "an iterator's attribute": (Counting, lambda held: setattr(held, "at", 1)),
    "a function's attribute": (lambda: lambda: 0, lambda held: setattr(held, "at", 1)),
    "a cache": (lambda: by_cache, lambda held: held(len("abc"))),
    "a method's cache": (Remembering, lambda held: held[0]),
    "a cache of its own": (lambda: lru_cache(abs), lambda held: held(-1)),
}


@pytest.mark.parametrize("name", CONTAINERS)
def test_what_changes_in_it_is_seen(name: str) -> None:
    make, change = CONTAINERS[name]
    data = SimpleNamespace(held=make())
    before = visible_state(data)
    assert visible_state(data) == before
    change(data.held)
    assert difference(before, visible_state(data)) == "SimpleNamespace.held"


@pytest.mark.parametrize("held", [cycle([1, 2]), (n for n in range(3)), iter([1])])
def test_an_iterator_that_cannot_be_looked_at_is_never_as_it_was(held: object) -> None:
    data = SimpleNamespace(held=held)
    assert difference(visible_state(data), visible_state(data)) == "SimpleNamespace.held"


def test_an_open_file_is_known_by_its_identity(tmp_path: Path) -> None:
    with (tmp_path / "x").open("w") as file:
        data = SimpleNamespace(file=file)
        assert visible_state(data) == visible_state(data)


@pytest.mark.parametrize("wrapped", [False, True])
def test_what_is_small_is_not_hidden_by_what_is_large(wrapped: bool) -> None:
    held = SimpleNamespace(all=[(Path("a"), {}) for _ in range(20_000)], transform=Transform())
    data = SimpleNamespace(dataset=held) if wrapped else held
    before = visible_state(data)
    assert visible_state(data) == before
    held.transform.size = 448
    assert (
        difference(before, visible_state(data)) == f"SimpleNamespace.{'dataset' if wrapped else 'transform'}"
    )
    before = visible_state(data)
    held.all[700] = (Path("b"), {})
    assert difference(before, visible_state(data)) == f"SimpleNamespace.{'dataset' if wrapped else 'all'}"


@pytest.mark.parametrize("alone", [False, True])
def test_of_many_paths_with_their_classes_each_counts(alone: bool) -> None:
    """As of the pictures of a folder: no container is so large that only some of them are looked at."""
    paths = [Path(f"folder/{number}.png") for number in range(50_000)]
    data = SimpleNamespace(held=paths if alone else [(path, 3) for path in paths])
    before, kept = visible_state(data), data.held[33_331]
    assert visible_state(data) == before
    (kept if alone else kept[0])._str = "folder/another.png"  # the same objects, of another value
    assert difference(before, visible_state(data)) == "SimpleNamespace.held"


@pytest.mark.parametrize("row", [(Path("a"), [1]), (Path("a"), (1, [1])), (Path("a"), 1, [1])])
def test_what_rows_hold_besides_paths_and_plain_values_is_looked_into(row: tuple[Any, ...]) -> None:
    rows: list[tuple[Any, ...]] = [(Path("a"), 1) for _ in range(300)]
    data = SimpleNamespace(held=[*rows, row])
    before = visible_state(data)
    changed = row[-1][-1] if isinstance(row[-1], tuple) else row[-1]
    changed.append(2)
    assert difference(before, visible_state(data)) == "SimpleNamespace.held"


def test_objects_in_rows_are_looked_into() -> None:
    rows = [(Path("a"), Transform()) for _ in range(300)]
    data = SimpleNamespace(held=rows)
    before = visible_state(data)
    assert visible_state(data) == before
    rows[200][1].size = 448
    assert difference(before, visible_state(data)) == "SimpleNamespace.held"


def test_rows_of_too_many_bytes_are_not_read_whole() -> None:
    row = (Path("a" * 100_000), 3)
    assert rows_digest([row] * 100) is not None
    assert rows_digest([row] * 300) is None


def test_where_not_all_can_be_looked_at_nothing_is_as_it_was() -> None:
    tree = [[[Transform() for _ in range(60)] for _ in range(60)] for _ in range(6)]
    data = SimpleNamespace(tree=tree)
    assert "too much to be looked at" in difference(visible_state(data), visible_state(data))


def test_a_tensor_over_an_arrays_memory_counts_by_its_bytes() -> None:
    labels = numpy.zeros(300)
    data = SimpleNamespace(labels=torch.from_numpy(labels), turned=torch.zeros(3, 4).t(), none=torch.empty(0))
    before = visible_state(data)
    assert visible_state(data) == before
    labels[7] = 1
    assert difference(before, visible_state(data)) == "SimpleNamespace.labels"


@pytest.mark.parametrize("lock", [True, False])
def test_a_number_that_processes_share_is_looked_at(lock: bool) -> None:
    data = SimpleNamespace(epoch=multiprocessing.Value("i", 0, lock=lock))
    before = visible_state(data)
    assert visible_state(data) == before
    data.epoch.value = 1
    assert difference(before, visible_state(data)) == "SimpleNamespace.epoch"
