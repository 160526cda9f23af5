"""The journal of every trial, in SQLite. A trial that is finished is on disk before the next one starts.

It lies in the project's folder, and may have come with it: what is not just as we make it (a trigger, a view,
another table) is refused before anything is read from it or written to it.
"""

from __future__ import annotations

import json
import os
import sqlite3
import time
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

from .. import safe_files
from ..errors import HastenError, UnsafeFile
from ..records.codec import to_json
from ..records.trial import Trial

_TABLES = (
    "CREATE TABLE tunes ( id INTEGER PRIMARY KEY, began REAL NOT NULL, identity TEXT NOT NULL, "
    "state TEXT NOT NULL, result TEXT )",
    "CREATE TABLE trials ( id INTEGER PRIMARY KEY, tune INTEGER NOT NULL REFERENCES tunes(id), "
    "ended REAL NOT NULL, purpose TEXT NOT NULL, a TEXT NOT NULL, b TEXT NOT NULL, trial TEXT NOT NULL )",
)
_CAREFULLY = ("PRAGMA trusted_schema=OFF", "PRAGMA cell_size_check=ON", "PRAGMA mmap_size=0")
_BESIDE = ("-wal", "-shm")  # SQLite's own files
_NEVER = "-journal"  # that of another mode: SQLite would carry it out, and remove a file that it names
_MOST_BYTES = 2**30
_MOST_WORK = 1_000  # times _WORK of SQLite's instructions for one statement of ours, which takes a few
_WORK = 10_000


class Journal:
    """One tune's entries. ``state`` of a tune is "open", "finished", "failed", "interrupted" or "killed"; the
    journal as a context closes with the one that fits how its block ends.

    ``alone``: no other tune writes here now, so one that is open still was killed.
    """

    def __init__(self, path: Path, identity: dict[str, Any], alone: bool = False) -> None:
        self._work = 0
        _check_files(path)
        safe_files.append(path).close()  # empty at first: SQLite need not make it
        self._database = sqlite3.connect(f"file:{quote(str(path))}?mode=rw", uri=True)
        try:
            self._database.set_progress_handler(self._worked, _WORK)
            _check_schema(self._database, path)
            self.tune = self._begin(identity, alone)
        except BaseException as error:
            self._database.close()
            if isinstance(error, sqlite3.Error) and "disk is full" in str(error):
                raise HastenError(
                    f"the disk is full: the journal {path} cannot be begun. Make room"
                ) from None
            if isinstance(error, sqlite3.Error):
                raise unusable(path, str(error)) from None
            raise

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        failed = kind is not None and issubclass(kind, HastenError)
        self.close("finished" if kind is None else "failed" if failed else "interrupted")

    def _begin(self, identity: dict[str, Any], alone: bool) -> int:
        self._database.execute("PRAGMA journal_mode=WAL")
        if alone:
            self._insert("UPDATE tunes SET state = 'killed' WHERE state = 'open'", ())
        return self._insert(
            "INSERT INTO tunes (began, identity, state) VALUES (?, ?, 'open')",
            (time.time(), json.dumps(identity)),
        )

    def add(self, trial: Trial, purpose: str) -> int:
        """Write a finished trial down; ``purpose`` is "search" or "confirm". Returns its number."""
        row = (self.tune, time.time(), purpose, trial.a.key, trial.b.key, json.dumps(to_json(trial)))
        return self._insert(
            "INSERT INTO trials (tune, ended, purpose, a, b, trial) VALUES (?, ?, ?, ?, ?, ?)", row
        )

    def close(self, state: str, result: dict[str, Any] | None = None) -> None:
        """Never raises: at a tune's end there is more to tell than that its journal is gone."""
        with suppress(sqlite3.Error):
            self._end(state, result)
        self._database.close()

    def _end(self, state: str, result: dict[str, Any] | None) -> None:
        self._insert(
            "UPDATE tunes SET state = ?, result = ? WHERE id = ?", (state, json.dumps(result), self.tune)
        )

    def _insert(self, statement: str, row: tuple[Any, ...]) -> int:
        self._work = 0
        with self._database:
            return int(self._database.execute(statement, row).lastrowid or 0)

    def _worked(self) -> bool:
        """Whether SQLite is to stop: a file that is broken on purpose can keep it busy for ever."""
        self._work += 1
        return self._work > _MOST_WORK


def _check_files(path: Path) -> None:
    """Raises UnsafeFile where SQLite, which opens by name, would open what is no file of ours."""
    for beside in (path, *(path.with_name(path.name + ending) for ending in _BESIDE)):
        if safe_files.check(beside) and (size := os.stat(beside).st_size) > _MOST_BYTES:
            raise unusable(path, f"{beside.name} has {size / 2**30:.1f} GiB")
    if os.path.lexists(path.with_name(path.name + _NEVER)):
        raise unusable(path, f"{path.name}{_NEVER} lies beside it, which hasten never makes")


def _check_schema(database: sqlite3.Connection, path: Path) -> None:
    """Raises UnsafeFile for any other than ours. One without anything was begun, and its maker was killed."""
    for statement in _CAREFULLY:
        database.execute(statement)
    found = database.execute("SELECT sql FROM sqlite_master").fetchmany(len(_TABLES) + 1)
    if not found:
        database.execute("PRAGMA journal_mode=MEMORY")  # else WAL is begun with a file that we never make
        database.execute("PRAGMA journal_mode=WAL")
        database.execute("BEGIN")
        for table in _TABLES:
            database.execute(table)
        database.commit()
    elif sorted(_plain(sql) for (sql,) in found) != sorted(map(_plain, _TABLES)):
        raise unusable(path, "it has tables, triggers or views that are not hasten's")


def _plain(sql: object) -> str:
    """A table's definition, however it is broken into lines."""
    return " ".join(str(sql).split())


def unusable(path: Path, why: str) -> UnsafeFile:
    return UnsafeFile(f"the journal {path} cannot be used ({why}): move it away and run again")
