"""The journal's file in SQLite: opened with care, moved aside if it is corrupt.

It lies in the project's folder, and may have come with it: anything that is not exactly as we make it (a
trigger, a view, another table) is refused before it is read or written.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote

from .. import safe_files
from ..errors import HastenError, UnsafeFile

FORMAT = 1
"""Format of tables and rows. 0: versions before there was a number, with the same tables and no results."""
_TABLES = (
    "CREATE TABLE tunes ( id INTEGER PRIMARY KEY, began REAL NOT NULL, identity TEXT NOT NULL, "
    "state TEXT NOT NULL, result TEXT )",
    "CREATE TABLE trials ( id INTEGER PRIMARY KEY, tune INTEGER NOT NULL REFERENCES tunes(id), "
    "ended REAL NOT NULL, purpose TEXT NOT NULL, a TEXT NOT NULL, b TEXT NOT NULL, trial TEXT NOT NULL )",
)
_CAREFULLY = ("PRAGMA trusted_schema=OFF", "PRAGMA cell_size_check=ON", "PRAGMA mmap_size=0")
_BESIDE = ("-wal", "-shm")  # SQLite's own files
_NEVER = "-journal"  # of another mode: SQLite would execute it, and remove a file that it names
_BROKEN = ("file is not a database", "database disk image is malformed")  # SQLite's words
_HEADER = b"SQLite format 3\0"
_MOST_BYTES = 2**30
_MOST_WORK = 1_000  # times _WORK of SQLite's instructions for one statement of ours, which takes a few
_WORK = 10_000

Row = Sequence[Any]


class JournalFile:
    """An open journal. Each statement may do a bounded amount of work only.

    Raises UnsafeFile if the file is not ours, HastenError if the disk is full, NotADatabase if it is
    corrupt. ``mode`` "rw" creates a missing file.
    """

    def __init__(self, path: Path, mode: Literal["rw", "ro"] = "rw") -> None:
        self._work = 0
        check_files(path)
        if mode == "rw":
            safe_files.append(path).close()  # empty at first: SQLite need not create it
        _check_header(path)
        self._database = sqlite3.connect(f"file:{quote(str(path))}?mode={mode}", uri=True)
        try:
            self._database.set_progress_handler(self._worked, _WORK)
            self._begin(path, mode)
        except BaseException as error:
            self._database.close()
            if isinstance(error, sqlite3.Error):
                raise told(path, error) from None
            raise

    def read(self, statement: str, values: Row = ()) -> list[tuple[Any, ...]]:
        """All rows of the result. Raises sqlite3.Error."""
        self._work = 0
        return self._database.execute(statement, values).fetchall()

    def write(self, statement: str, values: Row = ()) -> int:
        """Execute it, on disk at once; returns the number of the inserted row. Raises sqlite3.Error."""
        self._work = 0
        with self._database:
            return int(self._database.execute(statement, values).lastrowid or 0)

    def close(self) -> None:
        self._database.close()

    def _begin(self, path: Path, mode: str) -> None:
        """Raises UnsafeFile for any other than ours. An empty one is from a process that was
        killed.
        """
        for statement in _CAREFULLY:
            self._database.execute(statement)
        ((version,),) = self.read("PRAGMA user_version")
        if version > FORMAT:
            raise unusable(
                path, f"its format is {version}, and this hasten knows {FORMAT}: a newer one made it"
            )
        found = self._database.execute("SELECT sql FROM sqlite_master").fetchmany(len(_TABLES) + 1)
        if found and sorted(_plain(sql) for (sql,) in found) != sorted(map(_plain, _TABLES)):
            raise unusable(path, "it has tables, triggers or views that are not hasten's")
        if mode == "rw":
            self._take_over(new=not found)

    def _take_over(self, new: bool) -> None:
        """Make the tables, or make an older format ours."""
        if new:
            self._database.execute(
                "PRAGMA journal_mode=MEMORY"
            )  # otherwise WAL starts with a file we never make
        self._database.execute("PRAGMA journal_mode=WAL")
        self._database.execute("BEGIN")
        for table in _TABLES if new else ():
            self._database.execute(table)
        self._database.execute(f"PRAGMA user_version={FORMAT}")
        self._database.commit()

    def _worked(self) -> bool:
        """Whether SQLite must stop: a file corrupted on purpose can keep it busy for ever."""
        self._work += 1
        return self._work > _MOST_WORK


class NotADatabase(UnsafeFile):
    """The file is corrupt, or never was a database."""


def move_aside(path: Path) -> Path:
    """Rename a corrupt journal and SQLite's files next to it, so that SQLite's own tools may still save
    something. Nothing may have it open. Returns its new path.
    """
    for number in count(1):
        aside = path.with_name(f"{path.stem}.broken-{number}{path.suffix}")
        if not os.path.lexists(aside):
            break
    for ending in ("", *_BESIDE):
        if safe_files.check(path.with_name(path.name + ending)):
            safe_files.rename(path.with_name(path.name + ending), aside.name + ending)
    return aside


def check_files(path: Path) -> None:
    """Raises UnsafeFile if SQLite, which opens by name, would open a file that is not ours."""
    for beside in (path, *(path.with_name(path.name + ending) for ending in _BESIDE)):
        if safe_files.check(beside) and (size := os.stat(beside).st_size) > _MOST_BYTES:
            raise unusable(path, f"{beside.name} has {size / 2**30:.1f} GiB")
    if os.path.lexists(path.with_name(path.name + _NEVER)):
        raise unusable(path, f"{path.name}{_NEVER} lies next to it, which hasten never makes")


def _check_header(path: Path) -> None:
    """Raises NotADatabase before SQLite does, which would remove its own files next to it."""
    try:
        with path.open("rb") as file:
            begin = file.read(len(_HEADER))
    except OSError as error:
        raise unusable(path, error.strerror or str(error)) from None
    if begin not in (b"", _HEADER):
        raise NotADatabase(str(unusable(path, _BROKEN[0])))


def unusable(path: Path, why: str) -> UnsafeFile:
    """The error for a journal that hasten will not open."""
    return UnsafeFile(f"the journal {path} cannot be used ({why}): move it away and run again")


def told(path: Path, error: sqlite3.Error) -> HastenError:
    """``error``, from a journal that could not be opened, as an error for the user."""
    if "disk is full" in str(error):
        return HastenError(f"the disk is full: the journal {path} cannot be created. Make room")
    told = unusable(path, str(error))
    return NotADatabase(str(told)) if any(words in str(error) for words in _BROKEN) else told


def _plain(sql: object) -> str:
    """A table's definition, whatever its line breaks."""
    return " ".join(str(sql).split())
