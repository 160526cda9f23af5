"""A trial that is finished is on disk, whatever happens next."""

from __future__ import annotations

import json
import re
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from hasten.errors import HastenError
from hasten.records.codec import from_json
from hasten.records.plan import Plan
from hasten.records.result import TuneResult
from hasten.records.trial import Trial
from hasten.tuning.journal import Journal
from hasten.tuning.journal_file import FORMAT

from ..bench.made_up import trial
from ..report.made_up import GAIN

IDENTITY = {"argv": ["train.py"], "digest": "c0ffee", "machine": "this one"}
FASTER = trial([0.8, 0.81, 0.79], Plan({"bf16": {}}))
FAILED = trial([], Plan({"threads": {"count": 2}}), failure="the script raised ValueError")
ROOT = Path(__file__).parents[2]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal.db"


def rows(path: Path, query: str) -> list[tuple[Any, ...]]:
    """The answer to ``query`` by a connection of its own."""
    with closing(sqlite3.connect(path)) as database:
        return database.execute(query).fetchall()


def trials_in(path: Path) -> list[Trial]:
    return [from_json(Trial, json.loads(text)) for (text,) in rows(path, "SELECT trial FROM trials")]


def test_others_see_a_trial_while_the_tune_goes_on(path: Path) -> None:
    journal = Journal(path, IDENTITY)
    for count, finished in enumerate([FASTER, FAILED], 1):
        journal.add(finished, "search")
        assert trials_in(path) == [FASTER, FAILED][:count]
    journal.close("finished")


def test_a_trial_can_be_found_by_what_it_compared(path: Path) -> None:
    journal = Journal(path, IDENTITY)
    number = journal.add(FASTER, "confirm")
    journal.close("finished")
    assert rows(path, "SELECT id, tune, purpose, a, b FROM trials") == [
        (number, journal.tune, "confirm", FASTER.a.key, FASTER.b.key)
    ]


def test_a_reader_does_not_hold_up_the_tune(path: Path) -> None:
    """Write-ahead logging: without it the writer would wait for the reader, and fail after five seconds."""
    journal = Journal(path, IDENTITY)
    assert rows(path, "PRAGMA journal_mode") == [("wal",)]
    with closing(sqlite3.connect(path)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM trials").fetchall()
        journal.add(FASTER, "search")
    journal.close("finished")


@pytest.mark.parametrize("state", ["finished", "failed", "interrupted"])
def test_the_end_of_a_tune_is_written_down(path: Path, state: str) -> None:
    journal = Journal(path, IDENTITY)
    assert rows(path, "SELECT state FROM tunes") == [("open",)]
    journal.conclude(GAIN)
    journal.close(state)
    ((found, identity, result),) = rows(path, "SELECT state, identity, result FROM tunes")
    assert (found, json.loads(identity)) == (state, IDENTITY)
    assert from_json(TuneResult, json.loads(result)) == GAIN


def test_tunes_share_a_journal(path: Path) -> None:
    tunes = []
    for finished in (FASTER, FAILED):
        journal = Journal(path, IDENTITY)
        journal.add(finished, "search")
        journal.close("finished")
        tunes.append(journal.tune)
    assert rows(path, "SELECT tune FROM trials") == [(tune,) for tune in tunes]
    assert tunes[0] != tunes[1]
    assert trials_in(path) == [FASTER, FAILED]


def test_two_tunes_at_once(path: Path) -> None:
    first, second = Journal(path, IDENTITY), Journal(path, IDENTITY)
    first.add(FASTER, "search")
    second.add(FAILED, "search")
    first.add(FASTER, "search")
    for journal in (first, second):
        journal.close("finished")
    assert len(trials_in(path)) == 3


CRASHING = """
import os, sys
from tests.tuning.test_journal import FASTER, IDENTITY, Journal, Path
journal = Journal(Path(sys.argv[1]), IDENTITY)
journal.add(FASTER, "search")
os._exit(9)
"""


def test_a_crash_loses_no_finished_trial(path: Path) -> None:
    crashed = subprocess.run([sys.executable, "-c", CRASHING, str(path)], cwd=ROOT, check=False)
    assert crashed.returncode == 9
    assert trials_in(path) == [FASTER]
    assert rows(path, "SELECT state FROM tunes") == [("open",)]
    Journal(path, IDENTITY).close("finished")  # and the next tune takes it up


BROKEN = [b"this was never a database, " * 400, b"SQLite format 3\0" + b"\xff" * 9000]


@pytest.mark.parametrize("content", BROKEN)
def test_a_broken_file_is_named(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    with pytest.raises(
        HastenError, match=rf"the journal {re.escape(str(path))} cannot be used .*move it away"
    ):
        Journal(path, IDENTITY)
    assert path.read_bytes() == content


def test_a_folder_in_its_place_is_named(path: Path) -> None:
    path.mkdir()
    with pytest.raises(HastenError, match=r"journal\.db is a folder, .*move it away"):
        Journal(path, IDENTITY)


def test_a_database_of_somebody_elses_is_named(path: Path) -> None:
    with closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE tunes (melody TEXT)")
    with pytest.raises(HastenError, match=r"cannot be used .*move it away"):
        Journal(path, IDENTITY)


@pytest.mark.attack("messages")
def test_a_full_disk_is_not_blamed_on_the_journal(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr(Journal, "_insert", fail)
    with pytest.raises(HastenError, match=r"^the disk is full: ") as told:
        Journal(path, IDENTITY)
    assert "move it away" not in str(told.value)


@pytest.mark.attack("together")
def test_the_end_of_a_tune_outlives_its_journal(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = Journal(path, IDENTITY)

    def fail(*_: object) -> None:
        raise sqlite3.OperationalError("disk I/O error")

    monkeypatch.setattr(Journal, "_insert", fail)
    journal.close("finished")


@pytest.mark.parametrize("content", BROKEN)
def test_who_is_alone_moves_a_broken_file_aside(path: Path, content: bytes) -> None:
    for name in ("journal.db", "journal.broken-1.db"):
        path.with_name(name).write_bytes(content)
    journal = Journal(path, IDENTITY, alone=True)
    journal.add(FASTER, "search")
    journal.close("finished")
    aside = path.with_name("journal.broken-2.db")
    assert journal.aside == aside
    assert aside.read_bytes() == content
    assert path.with_name("journal.broken-1.db").read_bytes() == content  # of an earlier time
    assert trials_in(path) == [FASTER]


def test_sqlites_own_files_go_along(path: Path) -> None:
    for name in ("journal.db", "journal.db-wal"):
        path.with_name(name).write_bytes(BROKEN[0])
    with Journal(path, IDENTITY, alone=True) as journal:
        assert journal.aside is not None
    assert path.with_name("journal.broken-1.db-wal").read_bytes() == BROKEN[0]


@pytest.mark.attack("intruders")
def test_a_database_of_somebody_elses_is_not_moved(path: Path) -> None:
    with closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE tunes (melody TEXT)")
    before = path.read_bytes()
    with pytest.raises(HastenError, match="not hasten's"):
        Journal(path, IDENTITY, alone=True)
    assert path.read_bytes() == before


def test_a_journal_before_there_were_versions_is_taken_over(path: Path) -> None:
    with Journal(path, IDENTITY) as journal:
        journal.add(FASTER, "search")
    with closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA user_version=0")
    Journal(path, IDENTITY).close("finished")
    assert trials_in(path) == [FASTER]
    assert rows(path, "PRAGMA user_version") == [(FORMAT,)]


def test_a_newer_journal_is_refused_by_its_version(path: Path) -> None:
    Journal(path, IDENTITY).close("finished")
    with closing(sqlite3.connect(path)) as database:
        database.execute(f"PRAGMA user_version={FORMAT + 1}")
    with pytest.raises(HastenError, match=f"its format is {FORMAT + 1}, .* a newer one made it"):
        Journal(path, IDENTITY, alone=True)
    assert rows(path, "PRAGMA user_version") == [(FORMAT + 1,)]
