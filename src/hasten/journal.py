"""The journal of every trial, in SQLite. A trial that is finished is on disk before the next one starts."""

from __future__ import annotations

import json
import sqlite3
import time
from pathlib import Path
from typing import Any

from .errors import HastenError
from .records.codec import to_json
from .records.trial import Trial

_TABLES = """
CREATE TABLE IF NOT EXISTS tunes (
    id INTEGER PRIMARY KEY, began REAL NOT NULL, identity TEXT NOT NULL, state TEXT NOT NULL, result TEXT
);
CREATE TABLE IF NOT EXISTS trials (
    id INTEGER PRIMARY KEY, tune INTEGER NOT NULL REFERENCES tunes(id), ended REAL NOT NULL,
    purpose TEXT NOT NULL, a TEXT NOT NULL, b TEXT NOT NULL, trial TEXT NOT NULL
);
"""


class Journal:
    """One tune's entries. ``state`` of a tune is "open", "finished", "failed" or "interrupted"."""

    def __init__(self, path: Path, identity: dict[str, Any]) -> None:
        try:
            self._database = sqlite3.connect(path)
            self.tune = self._begin(identity)
        except sqlite3.DatabaseError as error:
            raise HastenError(
                f"the journal {path} cannot be used ({error}): move it away and run again"
            ) from None

    def _begin(self, identity: dict[str, Any]) -> int:
        try:
            self._database.execute("PRAGMA journal_mode=WAL")
            self._database.executescript(_TABLES)
            return self._insert(
                "INSERT INTO tunes (began, identity, state) VALUES (?, ?, 'open')",
                (time.time(), json.dumps(identity)),
            )
        except sqlite3.DatabaseError:
            self._database.close()
            raise

    def add(self, trial: Trial, purpose: str) -> int:
        """Write a finished trial down; ``purpose`` is "search" or "confirm". Returns its number."""
        row = (self.tune, time.time(), purpose, trial.a.key, trial.b.key, json.dumps(to_json(trial)))
        return self._insert(
            "INSERT INTO trials (tune, ended, purpose, a, b, trial) VALUES (?, ?, ?, ?, ?, ?)", row
        )

    def close(self, state: str, result: dict[str, Any] | None = None) -> None:
        self._database.execute(
            "UPDATE tunes SET state = ?, result = ? WHERE id = ?", (state, json.dumps(result), self.tune)
        )
        self._database.commit()
        self._database.close()

    def _insert(self, statement: str, row: tuple[Any, ...]) -> int:
        with self._database:
            return int(self._database.execute(statement, row).lastrowid or 0)
