"""The lines at which steps wait."""

from __future__ import annotations

import builtins
import gc
import logging
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import RandomSampler

import hasten
from hasten.inside.observing.leftovers import Waits
from hasten.inside.observing.observer import clock
from hasten.inside.observing.place import Place
from hasten.inside.observing.raw_step import RawStep
from hasten.inside.observing.timeline import Timeline
from hasten.inside.seams import Seams
from hasten.inside.training import Training
from hasten.inside.worker.control import step_records


@pytest.fixture
def waits() -> Iterator[Waits]:
    seams = Seams()
    try:
        yield Waits(Training(torch, seams, 0))
    finally:
        seams.undo_all()


class Slow:
    """Printing it takes a while, and fetches a value."""

    def __str__(self) -> str:
        time.sleep(0.02)
        return str(torch.tensor(1.0).item())


def test_each_line_counts_its_calls_and_seconds(waits: Waits) -> None:
    loss = torch.tensor([2.0])
    for _ in range(4):
        loss.item()
        print(Slow(), file=None)
    first, *others = waits.found(steps=2)
    assert (first.what, first.calls) == ("print", 2)
    assert first.seconds > 0.04
    assert [(other.what, other.calls) for other in others] == [(".item()", 2)]
    places = [wait.where for wait in (first, *others)]
    assert len(set(places)) == 2
    assert all(place.split(":")[0].endswith("test_leftovers.py") for place in places)


def test_fetches_by_conversion_count(waits: Waits) -> None:
    values: list[Any] = [float(torch.tensor(1.5)), int(torch.tensor(2)), bool(torch.tensor(1))]
    values.append(torch.ones(2).tolist())
    assert values == [1.5, 2, True, [1.0, 1.0]]
    assert {wait.what for wait in waits.found(1)} == {
        ".__float__()",
        ".__int__()",
        ".__bool__()",
        ".tolist()",
    }


def test_what_we_fetch_ourselves_does_not_count(waits: Waits) -> None:
    step_records([RawStep(losses=[torch.tensor(1.0)])])
    assert waits.found(1) == ()


def test_a_sampler_that_draws_its_order_waits_for_nothing(waits: Waits) -> None:
    """The script's line would be that of its loop, and it could not fetch less often."""
    for _ in RandomSampler(range(4)):
        pass
    assert waits.found(1) == ()


def test_copies_to_a_device_count(waits: Waits) -> None:
    batch = torch.ones(2)
    batch.to("meta")
    batch.to(torch.float64)
    batch.to("cpu")
    assert [(wait.what, wait.calls) for wait in waits.found(1)] == [(".to()", 1)]


def test_a_fetch_that_fails_fails(waits: Waits) -> None:
    with pytest.raises(RuntimeError):
        torch.ones(2).item()
    with pytest.raises(RuntimeError):
        torch.ones(2).to("no such device")
    assert [wait.what for wait in waits.found(1)] == [".item()"]


def test_what_was_before_training_does_not_count(waits: Waits) -> None:
    torch.tensor(1.0).item()
    waits.training_begins()
    assert waits.found(1) == ()


def test_everything_is_put_back() -> None:
    before = builtins.print, torch.Tensor.item, torch.Tensor.__float__
    seams = Seams()
    Waits(Training(torch, seams, 0))
    assert builtins.print is not before[0]
    seams.undo_all()
    assert (builtins.print, torch.Tensor.item, torch.Tensor.__float__) == before


# ---- whose line it is
def place_of(
    filename: str, text: str = "print('here')", namespace: dict[str, Any] | None = None
) -> list[str]:
    """Where what is printed by code of that name is said to be printed."""
    seams = Seams()
    try:
        waits = Waits(Training(torch, seams, 0))
        exec(compile(text, filename, "exec"), namespace or {})
        return [wait.where for wait in waits.found(1)]
    finally:
        seams.undo_all()


HERE = os.path.join(os.getcwd(), "")
PACKAGE = os.path.dirname(os.path.abspath(hasten.__file__))


@pytest.mark.attack("messages")
@pytest.mark.parametrize(
    ("filename", "said"),
    [
        (f"{HERE}train.py", "train.py:1"),
        (f"{HERE}lib/data.py", "lib/data.py:1"),
        (f"{HERE}lib/../train.py", "train.py:1"),
        ("train.py", "train.py:1"),
        ("./train.py", "train.py:1"),
        ("/elsewhere/train.py", "/elsewhere/train.py:1"),
        ("../train.py", "../train.py:1"),
        (f"{HERE}train.ipynb, cell 3", "train.ipynb, cell 3:1"),
        (f"{PACKAGE}/examples/fashion_cnn.py", f"{PACKAGE}/examples/fashion_cnn.py:1".removeprefix(HERE)),
        (f"{PACKAGE}_mine/train.py", f"{PACKAGE}_mine/train.py:1".removeprefix(HERE)),
    ],
)
def test_the_line_is_the_users(filename: str, said: str) -> None:
    assert place_of(filename) == [said]


@pytest.mark.attack("messages")
def test_text_that_is_executed_belongs_to_who_executes_it() -> None:
    assert place_of(f"{HERE}train.py", "\n\nexec('print(1)')") == ["train.py:3"]


@pytest.mark.parametrize(
    "between",
    [
        "/env/lib/python3.11/site-packages/tqdm/std.py",
        logging.__file__,
        "/usr/lib/python3/dist-packages/rich/progress.py",
    ],
)
def test_a_loop_that_a_progress_bar_goes_through_is_the_scripts(between: str) -> None:
    """The bar's own line is the same for every loop of every script."""
    namespace: dict[str, Any] = {}
    exec(compile("def show(value):\n    print(value)", between, "exec"), namespace)
    assert place_of(f"{HERE}train.py", "\nshow('here')", namespace) == ["train.py:2"]


ENGINE = "/env/lib/python3.11/site-packages/engines/core/engine.py"


def functions_of(filename: str, text: str, **namespace: Any) -> dict[str, Any]:
    """What that text defines, as if it were in a file of that name."""
    exec(compile(text, filename, "exec"), namespace)
    return namespace


def test_of_a_library_that_trains_the_scripts_line_comes_first() -> None:
    """The library's own line is the same for training and evaluation."""
    library = functions_of(ENGINE, "def run(value):\n    print(value)")
    assert place_of(f"{HERE}main.py", "\nrun('here')", library) == ["main.py:2 via engines/core/engine.py:2"]
    text = "def evaluated(engine):\n    run(engine)\n\nengine_runs(evaluated)"
    outer = functions_of(ENGINE, "def engine_runs(handler):\n    handler(1)")
    namespace = {**library, "engine_runs": outer["engine_runs"]}
    assert place_of(f"{HERE}main.py", text, namespace) == ["main.py:2 via engines/core/engine.py:2"]


def test_a_library_without_a_line_of_the_script_is_told_from_its_package_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Place, "_caller", lambda *_: None)  # this test's own line would be the script's
    assert place_of(ENGINE) == ["engines/core/engine.py:1"]
    assert place_of("/usr/lib/python3/dist-packages/one.py") == ["one.py:1"]


def test_a_loop_in_a_generator_of_the_scripts_own_is_told_by_who_goes_through_it() -> None:
    """Training and evaluation may share it."""
    logged = "def logged(values):\n    for value in values:\n        print(value)\n        yield value"
    utils = functions_of(f"{HERE}utils.py", logged)
    text = "for _ in logged([1]):\n    pass\n\nfor _ in logged([1]):\n    pass"
    assert sorted(place_of(f"{HERE}train.py", text, utils)) == [
        "train.py:1 via utils.py:3",
        "train.py:4 via utils.py:3",
    ]
    nested = "def outer(values):\n    yield from logged(values)\n\nfor _ in outer([1]):\n    pass"
    assert place_of(f"{HERE}train.py", nested, utils) == ["train.py:4 via utils.py:3"]
    assert place_of(f"{HERE}train.py", "any(print(n) for n in range(1))") == ["train.py:1"]


@pytest.mark.attack("messages")
def test_a_folder_that_is_gone_fails_no_print(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert place_of("/elsewhere/train.py") == ["/elsewhere/train.py:1"]
    assert place_of("train.py") == ["train.py:1"]


def test_what_we_print_ourselves_is_nobodys() -> None:
    assert place_of(f"{PACKAGE}/inside/worker/worker.py") == []


def test_values_that_are_fetched_in_great_number_leave_no_objects_behind() -> None:
    """Objects kept for each would make Python collect garbage, which would be told of the script."""
    seams = Seams()
    training = Training(torch, seams, available_bytes=0)
    timeline = Timeline(clock(), Place(torch).of_caller)
    waits = Waits(training, timeline)
    try:
        values = torch.zeros(2000)
        for value in values[:10]:
            value.item()
        gc.collect()
        before = len(gc.get_objects())
        gc.disable()
        for value in values:
            value.item()
        assert len(gc.get_objects()) - before < 100
        assert sum(calls for calls, _ in timeline.waits.values()) == 2010
    finally:
        gc.enable()
        waits.stop()
        seams.undo_all()
