"""Equal data sets have equal digests, in other processes too; different ones have not."""

from __future__ import annotations

import copy
import functools
import os
import subprocess
import sys
import threading
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from hasten.inside.samples.attribute_watch import AttributeWatch
from hasten.inside.samples.lasting_digest import NoDigest, lasting_digest
from hasten.inside.seams import Seams


class Thing:
    def __init__(self, **attributes: Any) -> None:
        vars(self).update(attributes)


def test_a_digest_is_of_values_and_not_of_places() -> None:
    def made(**other: Any) -> Thing:
        usual = {
            "paths": [(f"{n}.png", n) for n in range(50)],
            "names": {"x", "y", "z"},
            "rows": np.arange(5),
            "weights": torch.ones(3),
            "call": lambda value: value + 1,
            "path": Path("a"),
            "inner": Thing(a=1),
            "lock": threading.Lock(),
        }
        return Thing(**{**usual, **other})

    usual = lasting_digest(made())
    assert lasting_digest(made()) == usual
    for name, value in {
        "paths": [(f"{n}.png", n + (n == 49)) for n in range(50)],
        "names": {"x", "y"},
        "rows": np.arange(5) * 2,
        "weights": torch.ones(3, dtype=torch.float64),
        "call": lambda value: value + 2,
        "path": Path("b"),
        "inner": Thing(a=2),
    }.items():
        assert lasting_digest(made(**{name: value})) != usual, name


class Text(str):
    pass


class Rows(np.ndarray):
    pass


class Seen(set[int]):
    pass


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (Text("a"), Text("b")),
        (np.arange(3).view(Rows), np.ones(3, int).view(Rows)),
        (Seen({1}), Seen({2})),
        (OrderedDict(a=1), OrderedDict(a=2)),
    ],
)
def test_what_a_compiled_base_holds_counts(one: Any, other: Any) -> None:
    one.kept, other.kept = 1, 1
    assert lasting_digest(Thing(labels=one)) != lasting_digest(Thing(labels=other))
    assert lasting_digest(Thing(labels=one)) == lasting_digest(Thing(labels=copy.copy(one)))


def test_what_cannot_be_seen_in_a_compiled_base_is_refused_by_name() -> None:
    class Local(str):
        pass

    with pytest.raises(NoDigest, match="Local"):
        lasting_digest(Thing(labels=Local("a")))


class Meta(type):
    """As Cython compiles one: where a class says its module, it has a descriptor for the classes it makes."""


Meta.__module__ = property(lambda kind: __name__)  # type: ignore[assignment]


def test_a_class_of_a_compiled_metaclass_has_a_digest() -> None:
    one, other = Meta("One", (), {"size": 1}), Meta("One", (), {"size": 2})
    assert lasting_digest([one]) == lasting_digest([one])
    assert lasting_digest([one]) != lasting_digest([other])


@pytest.mark.parametrize("kind", [torch.Tensor, torch.nn.Parameter, np.ndarray, np.float32])
def test_a_class_is_not_taken_for_what_it_makes(kind: type) -> None:
    assert lasting_digest([kind]) == lasting_digest([kind]) != lasting_digest([float])


def test_parts_of_a_mapped_file_are_told_apart(tmp_path: Path) -> None:
    path = tmp_path / "rows"
    path.write_bytes(bytes(range(200)) * 100)
    rows = np.memmap(path, np.uint8, "r", shape=(100, 200))
    later = np.memmap(path, np.uint8, "r", offset=5000, shape=(50,))
    parts = [rows[:50], rows[50:], rows[::2], rows[:, :200][1:51], later, later[1:]]
    digests = [lasting_digest(part) for part in parts]
    assert len(set(digests)) == len(parts)
    assert lasting_digest(np.memmap(path, np.uint8, "r", shape=(100, 200))[50:]) == digests[1]
    changed = np.memmap(path, np.uint8, "c", shape=(100, 200))
    before = lasting_digest(changed)
    changed[3, 4] = 77
    assert lasting_digest(changed) != before


def test_a_digest_is_the_same_in_another_process() -> None:
    code = (
        "import numpy, torch; from hasten.inside.samples.lasting_digest import lasting_digest as d; "
        "print(d({'a': {'x', 'y', 'zz'}, 'b': numpy.arange(4), 'c': ('q', [1.5, None]), 'd': torch.ones(2)}))"
    )
    said = [
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    ]
    assert said[0] == said[1] != ""


# ---- what the script's own code names
THRESHOLD = 3
UNNAMED = 1
OPTIONS = Thing(size=32)


class Base:
    scale = 2.0

    def halved(self, value: float) -> float:
        return value / 2


class Naming(Base):
    def __init__(self) -> None:
        self.made = UNNAMED

    def __getitem__(self, index: int) -> float:
        return self.halved(index * self.scale if index > THRESHOLD else _helped())

    @property
    def size(self) -> int:
        return len(os.environ.get("HASTEN_TEST_SIZE", ""))


def _helped() -> float:
    return float(OPTIONS.size)  # type: ignore[attr-defined]


def test_globals_that_code_names_count(monkeypatch: pytest.MonkeyPatch) -> None:
    usual = lasting_digest(Naming())
    assert lasting_digest(Naming()) == usual
    module = sys.modules[__name__]
    for owner, name, value in [
        (module, "THRESHOLD", 4),
        (OPTIONS, "size", 64),
        (Base, "scale", 3.0),
        (Base, "halved", lambda self, value: value / 3),
    ]:
        with monkeypatch.context() as changed:
            changed.setattr(owner, name, value)
            assert lasting_digest(Naming()) != usual, name
    with monkeypatch.context() as changed:
        changed.setenv("HASTEN_TEST_SIZE", "three")
        assert lasting_digest(Naming()) != usual
    monkeypatch.setattr(module, "UNNAMED", 2)
    before = Naming()
    before.made = 1
    assert lasting_digest(before) == usual  # by what makes no sample


def test_what_functions_name_counts_where_they_are_cached_or_wrapped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    values: dict[str, Any] = {
        "a function": _helped,
        "cached": functools.lru_cache(maxsize=2)(_helped),
        "a class": Naming,
        "partly called": functools.partial(_helped),
    }
    usual = {name: lasting_digest(Thing(made=value)) for name, value in values.items()}
    monkeypatch.setattr(OPTIONS, "size", 64)
    for name, value in values.items():
        assert lasting_digest(Thing(made=value)) != usual[name], name


def test_what_a_watch_puts_on_a_class_does_not_count() -> None:
    seams, thing = Seams(), Naming()
    usual = lasting_digest(thing)
    AttributeWatch(seams, lambda part: None).watch([thing])
    try:
        assert "__setattr__" in vars(Naming)
        assert lasting_digest(thing) == usual
    finally:
        seams.undo_all()
