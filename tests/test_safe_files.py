"""What opens and writes hasten's own files can be interrupted anywhere."""

from __future__ import annotations

import os
from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest

from hasten import safe_files

from .interrupting import interrupted

FOLDER = Path(".hasten/train/trials/000")
FILE = FOLDER / "file"


def changed() -> None:
    with safe_files.changing(FILE) as file:
        file.write(b"changed")


USES: dict[str, Callable[[], object]] = {
    "read": lambda: safe_files.read(FILE, 100),
    "names": lambda: safe_files.names(FOLDER),
    "check": lambda: safe_files.check(FILE),
    "write": lambda: safe_files.write(FILE, b"new"),
    "append": lambda: safe_files.append(FILE).close(),
    "changing": changed,
    "make_folder": lambda: safe_files.make_folder(FOLDER / "more/below"),
    "make_new_folder": lambda: safe_files.make_new_folder(FOLDER / "new"),
    "move": lambda: safe_files.move(FOLDER, FOLDER.with_name("moved")),
}


@pytest.mark.attack("signals")
@pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")  # the interruption came before its owner
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("use", USES)
def test_an_interruption_is_never_lost(use: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in count(1):
        folder = tmp_path / str(number)
        folder.mkdir()
        monkeypatch.chdir(folder)
        safe_files.make_folder(FOLDER)
        FILE.write_bytes(b"old")
        error, interrupter = interrupted(USES[use], number)
        if error is None:
            break
        assert type(error) is KeyboardInterrupt, f"{interrupter.where}: {error!r}"
        assert not [name for name in os.listdir(FOLDER.parent) if name.startswith(".new")]
    assert number > 10
