"""A checkpoint is read back as it was written, or not at all."""

from __future__ import annotations

import json
import subprocess
import sys
import zlib
from pathlib import Path

import pytest

from hasten.inside.checkpoints import store
from hasten.inside.checkpoints.cannot import Cannot
from hasten.inside.checkpoints.store import Damaged

BODY = bytes(range(256)) * 20
HEADER = {"plain": {"main: x": "1"}}


def written(folder: Path, step: int = 7) -> Path:
    store.write(str(folder), step, HEADER, (memoryview(BODY[:100]), memoryview(BODY[100:])))
    return Path(store.path_of(str(folder), step))


def test_it_is_read_back(tmp_path: Path) -> None:
    written(tmp_path)
    found = store.read(str(tmp_path), 7)
    assert found.header == {"step": 7, **HEADER}
    assert bytes(found.body) == BODY


@pytest.mark.parametrize("left", [0, 5, 30, 1000, -1])
def test_cut_short_at_any_place_is_found(tmp_path: Path, left: int) -> None:
    path = written(tmp_path)
    path.write_bytes(path.read_bytes()[:left])
    with pytest.raises(Damaged):
        store.read(str(tmp_path), 7)


@pytest.mark.parametrize("at", [0, 9, 30, 500, -2])
def test_one_changed_bit_is_found(tmp_path: Path, at: int) -> None:
    path = written(tmp_path)
    content = bytearray(path.read_bytes())
    content[at] ^= 4
    path.write_bytes(content)
    with pytest.raises(Damaged):
        store.read(str(tmp_path), 7)


def test_a_renamed_one_is_found(tmp_path: Path) -> None:
    written(tmp_path).rename(store.path_of(str(tmp_path), 8))
    with pytest.raises(Damaged, match="is of step 7, not of step 8"):
        store.read(str(tmp_path), 8)


def test_a_foreign_file_is_named(tmp_path: Path) -> None:
    Path(store.path_of(str(tmp_path), 7)).write_text("{}" * 100)
    with pytest.raises(Damaged, match="no checkpoint of hasten's"):
        store.read(str(tmp_path), 7)


def test_what_a_killed_run_left_goes(tmp_path: Path) -> None:
    path = written(tmp_path)
    names = ("step-000000000014.checkpoint.new", "journal-000000000014.new", "mine.new")
    for name in names:
        (tmp_path / name).write_bytes(b"half")
    store.remove_unfinished(str(tmp_path))
    assert sorted(tmp_path.iterdir()) == [tmp_path / "mine.new", path]


def test_what_fails_while_it_is_written_leaves_the_older_one(tmp_path: Path) -> None:
    path = written(tmp_path)
    before = path.read_bytes()

    def parts() -> object:
        yield memoryview(b"half")
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space"):
        store.write(str(tmp_path), 7, HEADER, parts())  # type: ignore[arg-type]
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_the_newest_stay_and_those_of_a_left_course_go(tmp_path: Path) -> None:
    for step in (10, 20, 30, 40):
        written(tmp_path, step)
    store.prune(str(tmp_path), [str(tmp_path)], 2, 30)
    assert store.steps_in(str(tmp_path)) == [30, 20]


def test_a_journal_is_put_together_and_checked(tmp_path: Path) -> None:
    parts = {10: b"first", 20: b"second"}
    for step, content in parts.items():
        Path(store.segment_of(str(tmp_path), step)).write_bytes(content)
    segments = [(step, len(content), zlib.crc32(content)) for step, content in parts.items()]
    assert store.read_segments(str(tmp_path), segments) == b"firstsecond"
    Path(store.segment_of(str(tmp_path), 10)).write_bytes(b"fixed")
    with pytest.raises(Damaged, match="cut short or was changed"):
        store.read_segments(str(tmp_path), segments)


def test_a_folder_is_one_runs(tmp_path: Path) -> None:
    store.lock(str(tmp_path))
    text = (
        "from hasten.inside.checkpoints import store\n"
        "try:\n    store.lock(__import__('sys').argv[1])\n"
        "except store.Cannot as error:\n    print(error)"
    )
    other = subprocess.run([sys.executable, "-c", text, str(tmp_path)], capture_output=True, text=True)
    assert "another run writes its checkpoints" in other.stdout, json.dumps(other.stderr)
    assert issubclass(Cannot, Exception)
