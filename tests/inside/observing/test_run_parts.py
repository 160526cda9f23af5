"""What a run spends on files, output and garbage is seen, told by its line, and all is put back."""

from __future__ import annotations

import builtins
import gc
import io
import logging
import pickle
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy
import pytest
import torch

from hasten.inside.observing import timeline
from hasten.inside.observing.place import Place
from hasten.inside.observing.run_parts import watch_parts
from hasten.inside.observing.timeline import Timeline, clock
from hasten.inside.seams import Seams
from hasten.inside.training import Training
from hasten.records.whole_run import Part


@contextmanager
def seams_undone(seams: Seams) -> Iterator[None]:
    try:
        yield
    finally:
        seams.undo_all()


class Watched:
    def __init__(self, seams: Seams, began: float | None = None) -> None:
        self.timeline = Timeline(clock() if began is None else began, Place(torch).of_caller)
        watch_parts(Training(torch, seams, 0), self.timeline)

    def part(self, name: str) -> Part:
        return self.timeline.watched(ended=True).part(name)


@pytest.fixture
def watched(seams: Seams) -> Watched:
    return Watched(seams)


def test_files_are_seen_with_their_lines(watched: Watched, tmp_path: Path) -> None:
    torch.save({"weights": torch.ones(4)}, tmp_path / "a.pt")
    with (tmp_path / "b.pickle").open("wb") as file:
        pickle.dump([1, 2], file)
    numpy.save(tmp_path / "c.npy", numpy.ones(3))
    part = watched.part("saving")
    assert part.count == 3
    assert part.folders == (str(tmp_path),)
    assert len(part.where) == 3
    assert all(place.rsplit("/", 1)[-1].startswith("test_run_parts.py:") for place in part.where)
    assert torch.load(tmp_path / "a.pt")["weights"].sum() == 4


def test_a_file_without_a_name_lies_in_no_folder(watched: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.save({}, io.BytesIO())
    pickle.dump([1], file=io.BytesIO())
    assert watched.part("saving").count == 2
    assert watched.part("saving").folders == ()


def test_output_is_seen(watched: Watched) -> None:
    print("here", file=io.StringIO())
    logger = logging.getLogger("hasten.test")
    logger.addHandler(logging.StreamHandler(io.StringIO()))
    logger.warning("there")
    assert watched.part("output").count == 2


def logging_by(now: list[float], monkeypatch: pytest.MonkeyPatch) -> logging.Logger:
    """A logger that takes 8 s to make a record, by a clock that ``now`` is."""
    make = logging.getLogRecordFactory()

    def slow(*args: Any, **kwargs: Any) -> logging.LogRecord:
        now[0] += 8.0
        return make(*args, **kwargs)

    monkeypatch.setattr(timeline, "clock", lambda: now[0])
    monkeypatch.setattr(logging, "_logRecordFactory", slow)  # as setLogRecordFactory does
    logger = logging.getLogger("hasten.slow")
    logger.handlers = [logging.NullHandler()]
    return logger


def test_making_a_record_to_log_is_output(monkeypatch: pytest.MonkeyPatch) -> None:
    now, seams = [1.0], Seams()
    logger = logging_by(now, monkeypatch)
    watched = Watched(seams, began=0.5)
    with seams_undone(seams):
        logger.warning("there")
        assert watched.part("output").seconds == 8.0


def test_what_a_script_does_once_it_knows_that_it_may_log_is_no_output(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now, seams = [1.0], Seams()
    logger = logging_by(now, monkeypatch)
    watched = Watched(seams, began=0.5)
    with seams_undone(seams):
        if logger.isEnabledFor(logging.WARNING):
            now[0] += 100.0
            print("by itself", file=io.StringIO())
            logger.warning("there")
        assert watched.part("output").seconds == 8.0


def test_collections_are_counted(watched: Watched) -> None:
    watched.timeline.step_ended()
    watched.timeline.goes_on()
    gc.collect()
    gc.collect()
    assert watched.part("garbage").count >= 2
    assert watched.part("garbage").seconds > 0


def test_what_fails_fails(watched: Watched, tmp_path: Path) -> None:
    with pytest.raises(RuntimeError):
        torch.save({}, tmp_path / "no" / "such" / "folder.pt")
    print("still here", file=io.StringIO())
    assert watched.part("saving").count == watched.part("output").count == 1


def test_libraries_that_come_later_are_seen(
    watched: Watched, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As soon as they are imported, so that names taken from them are ours already."""
    package = tmp_path / "safetensors"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "torch.py").write_text("def save_file(tensors, name):\n    return name\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in ("safetensors", "safetensors.torch"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    saving: ModuleType = __import__("safetensors.torch", fromlist=["save_file"])
    assert saving.save_file({}, "model.safetensors") == "model.safetensors"
    assert watched.part("saving").count == 1
    for name in ("safetensors", "safetensors.torch"):
        del sys.modules[name]  # no other test is to find them


def test_everything_is_put_back() -> None:
    owners: list[tuple[object, str]] = [
        (torch, "save"),
        (pickle, "dump"),
        (builtins, "print"),
        (logging.Logger, "handle"),
        (logging.Logger, "isEnabledFor"),
    ]
    before = [getattr(owner, name) for owner, name in owners]
    callbacks = list(gc.callbacks)
    seams = Seams()
    Watched(seams)
    assert all(getattr(owner, name) is not was for (owner, name), was in zip(owners, before, strict=True))
    seams.undo_all()
    assert [getattr(owner, name) for owner, name in owners] == before
    assert gc.callbacks == callbacks


def test_what_comes_after_the_end_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seams = Seams()
    finders = list(sys.meta_path)
    monkeypatch.setattr(sys, "meta_path", finders)
    monkeypatch.delitem(sys.modules, "tqdm.std", raising=False)
    monkeypatch.delitem(sys.modules, "tqdm", raising=False)
    package = tmp_path / "tqdm"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "std.py").write_text("class tqdm:\n    def refresh(self):\n        return 1\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    Watched(seams)
    seams.undo_all()
    bars: ModuleType = __import__("tqdm.std", fromlist=["tqdm"])
    assert not hasattr(bars.tqdm.refresh, "__wrapped__")
