"""What a script writes is noticed, and what the run that ended wrote later is not gone by."""

from __future__ import annotations

import glob
import os
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch

from hasten.inside.checkpoints.cannot import Diverged
from hasten.inside.checkpoints.muted_output import Files
from hasten.inside.checkpoints.written_list import WrittenList
from hasten.inside.seams import Seams


def failing(error: Exception) -> None:
    raise error


@pytest.fixture
def seams() -> Iterator[Seams]:
    seams = Seams()
    yield seams
    seams.undo_all()


def files_of(seams: Seams, folder: Path, playing: bool) -> Files:
    return Files(seams, playing, failing, WrittenList(str(folder)), lambda: False)


def test_weights_are_saved_by_name(tmp_path: Path, seams: Seams) -> None:
    files = files_of(seams, tmp_path, False)
    files.install_saves(torch)
    path = tmp_path / "weights.pt"
    torch.save(obj=torch.ones(2), f=path)
    torch.save(torch.ones(2), f=tmp_path / "again.pt")
    assert torch.load(path).tolist() == [1.0, 1.0]
    assert list(files.saved()) == [str(tmp_path / "again.pt"), str(path)]


def test_weights_are_not_saved_by_name_while_a_restart_plays(tmp_path: Path, seams: Seams) -> None:
    files = files_of(seams, tmp_path, True)
    files.install_saves(torch)
    torch.save(obj=torch.ones(2), f=tmp_path / "weights.pt")
    assert not (tmp_path / "weights.pt").exists()


@pytest.fixture
def continued(tmp_path: Path) -> Iterator[Files]:
    """A restart that has come to a checkpoint: ``there`` was there, and ``new`` was written after it."""
    before, there, new = Seams(), tmp_path / "there", tmp_path / "new"
    written = files_of(before, tmp_path, playing=False)
    written.install(lambda path: path == __file__)
    there.write_text("1")
    header = written.state()
    (tmp_path / "other").write_text("1")
    os.rename(tmp_path / "other", new)
    before.undo_all()
    after = Seams()
    files = files_of(after, tmp_path, playing=True)
    files.install(lambda path: path == __file__)
    there.write_text("played")
    files.go_on(header, [])
    yield files
    after.undo_all()


@pytest.mark.parametrize(
    ("act", "words"),
    [
        (lambda path: path.read_text(), "reads {}/new, which the run that ended wrote after the checkpoint"),
        (lambda path: path.open("a"), "adds to {}/new, which the run that ended wrote"),
        (lambda path: path.open("r+"), "reads {}/new"),
        (lambda path: shutil.copy(path, f"{path}.copy"), "reads {}/new"),
        (lambda path: os.rename(path, f"{path}.old"), "reads {}/new"),
        (lambda path: glob.glob(f"{path.parent}/*"), "lists {}, where {}/new is"),
        (lambda path: os.listdir(path.parent), "lists {}, where {}/new is"),
        (lambda path: list(os.walk(path.parent)), "lists {}, where {}/new is"),
        (lambda path: list(path.parent.glob("*")), "lists {}, where {}/new is"),
    ],
    ids=["read", "append", "change", "copy", "rename", "glob", "listdir", "walk", "pathlib"],
)
@pytest.mark.usefixtures("continued")
def test_what_was_written_after_the_checkpoint_is_not_gone_by(
    tmp_path: Path, act: Callable[[Path], object], words: str
) -> None:
    with pytest.raises(Diverged, match=re.escape(words.format(tmp_path, tmp_path))):
        act(tmp_path / "new")


@pytest.mark.usefixtures("continued")
def test_what_is_written_again_is_read(tmp_path: Path) -> None:
    assert (tmp_path / "there").read_text() == "1"
    (tmp_path / "new").write_text("2")
    (tmp_path / "there").open("a").close()
    assert (tmp_path / "new").read_text() == "2"
    assert sorted(os.listdir(tmp_path)) == ["new", "there", "written"]


@pytest.mark.usefixtures("continued")
def test_a_library_lists_what_it_likes(tmp_path: Path) -> None:
    shutil.rmtree(tmp_path)


def test_what_is_not_written_again_is_still_later_at_the_next_checkpoint(
    tmp_path: Path, continued: Files
) -> None:
    assert continued.state()["later"] == [str(tmp_path / "new")]


def test_a_file_that_is_mapped_to_be_written_to_is_named(tmp_path: Path, seams: Seams) -> None:
    (tmp_path / "data").write_bytes(bytes(8))
    files = files_of(seams, tmp_path, playing=True)
    files.install(lambda path: path == __file__)
    changed = numpy.memmap(tmp_path / "data", dtype=numpy.uint8, mode="r+")
    changed[0] = 1
    changed.flush()
    assert (tmp_path / "data").read_bytes() == bytes(8)
    header: dict[str, Any] = {"files": {}, "saved": {}}
    with pytest.raises(Diverged, match="data is mapped into memory to be written to"):
        files.go_on(header, [])
    del changed
    files.go_on(header, [])


def test_a_file_that_was_saved_in_a_temporary_folder_and_is_gone_is_named(
    tmp_path: Path, seams: Seams
) -> None:
    files = files_of(seams, tmp_path, playing=True)
    header = {"files": {}, "saved": {str(tmp_path / "best.pt"): [1, 1]}}
    with pytest.raises(Diverged, match="took away the temporary folder"):
        files.go_on(header, [str(tmp_path)])
