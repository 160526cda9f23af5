"""The journal of every trial and of each tune's result. A finished trial is on disk before the
next one starts.
"""

from __future__ import annotations

import json
import sqlite3
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from ..errors import HastenError
from ..records.codec import to_json
from ..records.result import TuneResult
from ..records.trial import Trial
from .journal_file import JournalFile, NotADatabase, move_aside, told


class Journal:
    """One tune's entries. ``state`` of a tune is "open", "finished", "failed", "interrupted" or "killed";
    used as a context, the journal closes with the one that fits how the block ends.

    ``alone``: no other tune writes here now. So an open one was killed, and a corrupt file is moved aside:
    ``aside`` says where to, None if it was not.
    """

    def __init__(self, path: Path, identity: dict[str, Any], alone: bool = False) -> None:
        self.aside: Path | None = None
        self.identity = identity
        try:
            self._open(path, identity, alone)
        except NotADatabase:
            if not alone:
                raise
            self.aside = move_aside(path)
            self._open(path, identity, alone)

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        failed = kind is not None and issubclass(kind, HastenError)
        self.close("finished" if kind is None else "failed" if failed else "interrupted")

    def _open(self, path: Path, identity: dict[str, Any], alone: bool) -> None:
        self._file = JournalFile(path)
        try:
            self.tune = self._begin(identity, alone)
        except BaseException as error:
            self._file.close()
            if isinstance(error, sqlite3.Error):
                raise told(path, error) from None
            raise

    def _begin(self, identity: dict[str, Any], alone: bool) -> int:
        if alone:
            self._insert("UPDATE tunes SET state = 'killed' WHERE state = 'open'", ())
        return self._insert(
            "INSERT INTO tunes (began, identity, state) VALUES (?, ?, 'open')",
            (time.time(), json.dumps(identity)),
        )

    def identify(self, **more: Any) -> None:
        """Write what is known by now about what is tuned. Raises sqlite3.Error."""
        identity = {**self.identity, **more}
        if identity != self.identity:
            self._insert("UPDATE tunes SET identity = ? WHERE id = ?", (json.dumps(identity), self.tune))
            self.identity = identity

    def add(self, trial: Trial, purpose: str) -> int:
        """Write a finished trial; ``purpose`` is "search" or "confirm". Returns its number. Raises
        sqlite3.Error.
        """
        row = (self.tune, time.time(), purpose, trial.a.key, trial.b.key, json.dumps(to_json(trial)))
        return self._insert(
            "INSERT INTO trials (tune, ended, purpose, a, b, trial) VALUES (?, ?, ?, ?, ?, ?)", row
        )

    def conclude(self, result: TuneResult) -> None:
        """Write the tune's result. Raises sqlite3.Error."""
        self._insert("UPDATE tunes SET result = ? WHERE id = ?", (json.dumps(to_json(result)), self.tune))

    def close(self, state: str) -> None:
        """Never raises: at a tune's end, other things matter more than a lost journal."""
        with suppress(sqlite3.Error):
            self._insert("UPDATE tunes SET state = ? WHERE id = ?", (state, self.tune))
        self._file.close()

    def _insert(self, statement: str, row: tuple[Any, ...]) -> int:
        return self._file.write(statement, row)
