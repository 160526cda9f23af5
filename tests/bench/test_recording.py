"""Every finished trial is on disk before the next one begins: as a folder, and in the journal."""

from __future__ import annotations

import errno
import json
import os
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import cast

import pytest

from hasten.bench.comparing.decisions import Effort
from hasten.bench.script_bench import ScriptBench
from hasten.bench.trials import Trials
from hasten.bench.workers.ending import ScriptOver
from hasten.records.codec import from_json
from hasten.records.plan import BASELINE, Plan
from hasten.records.trial import Trial
from hasten.scripts.workspace import Workspace, find_script
from hasten.tuning.journal import Journal
from hasten.tuning.recording import LoggedBench
from tests.bench.made_up import trial
from tests.bench.real_workers import trials_for

SPEAKS = "import sys\nprint('a loss')\nprint('a warning', file=sys.stderr)"
BF16 = Plan({"bf16": {}})


class OneWorkerBench:
    """Starts one worker for every trial and makes the numbers up."""

    def __init__(self, trials: Trials) -> None:
        self._trials = trials

    def compare(self, a: Plan, b: Plan, seconds: float) -> Trial:
        self._let_speak()
        return trial([0.8, 0.81, 0.79], b, a, method="live")

    def confirm(self, plan: Plan, effort: Effort) -> Trial:
        self._let_speak()
        return trial([0.9] * effort.pairs, plan, failure="out of memory")

    def _let_speak(self) -> None:
        with self._trials.worker() as worker, pytest.raises(ScriptOver):
            worker.wait_started()


@pytest.fixture
def logged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LoggedBench]:
    """A bench that has done two trials in the folder we are in."""
    monkeypatch.chdir(tmp_path)
    with trials_for(tmp_path, SPEAKS, "--epochs", "a b") as trials:
        workspace = Workspace(find_script(trials.stage.argv[0], list(trials.stage.argv[1:])))
        workspace.make()
        workspace.new_trial()  # the observation's
        journal = Journal(workspace.journal_path, {"machine": "paper"})
        bench = LoggedBench(cast(ScriptBench, OneWorkerBench(trials)), trials, workspace, journal)
        assert bench.compare(BASELINE, BF16, 1.0) == trial([0.8, 0.81, 0.79], BF16, method="live")
        assert bench.confirm(BF16, Effort(4)).failure == "out of memory"
        yield bench
        journal.close("finished")


@pytest.mark.usefixtures("logged")
def test_a_trial_has_a_folder_with_command_output_and_numbers() -> None:
    folder = Path(".hasten/script.train/trials/001")
    assert (folder / "command").read_text().endswith("train.py --epochs 'a b'\n")
    assert {path.read_text() for path in folder.glob("worker-*.stdout")} == {"a loss\n"}
    assert {path.read_text() for path in folder.glob("worker-*.stderr")} == {"a warning\n"}
    content = json.loads((folder / "trial.json").read_text())
    assert content.pop("purpose") == "search"
    assert from_json(Trial, content) == trial([0.8, 0.81, 0.79], BF16, method="live")


@pytest.mark.usefixtures("logged")
def test_a_failed_trial_is_written_down_too() -> None:
    content = json.loads(Path(".hasten/script.train/trials/002/trial.json").read_text())
    assert content["purpose"] == "confirm"
    assert content["failure"] == "out of memory"
    assert content["ratio"] is None


@pytest.mark.usefixtures("logged")
def test_the_journal_has_a_row_for_every_trial_at_once() -> None:
    """Read by another connection, while the tune is still going on."""
    with closing(sqlite3.connect(".hasten/journal.db")) as database:
        rows = database.execute("SELECT tune, purpose, a, b, trial FROM trials ORDER BY id").fetchall()
        (state,) = database.execute("SELECT state FROM tunes").fetchone()
    assert state == "open"
    assert [row[:4] for row in rows] == [
        (1, "search", BASELINE.key, BF16.key),
        (1, "confirm", BASELINE.key, BF16.key),
    ]
    assert from_json(Trial, json.loads(rows[0][4])).log_ratios == pytest.approx(
        trial([0.8, 0.81, 0.79], BF16).log_ratios
    )


@pytest.mark.attack("together")
def test_what_was_cleared_away_is_made_anew(logged: LoggedBench) -> None:
    """As by ``rm -rf .hasten`` during a tune: what was measured counts, and what is left is said."""
    shutil.rmtree(".hasten")
    assert logged.compare(BASELINE, BF16, 1.0) == trial([0.8, 0.81, 0.79], BF16, method="live")
    (kept,) = Path(".hasten/script.train/trials").glob("*/trial.json")
    assert json.loads(kept.read_text())["purpose"] == "search"
    assert logged.lost == ".hasten/journal.db was removed meanwhile"


@pytest.mark.attack("together")
@pytest.mark.parametrize(
    ("number", "said"),
    [
        (errno.ENOSPC, "the disk is full"),
        (errno.EDQUOT, "your quota on the disk is used up"),
        (errno.EROFS, "the file system is read-only"),
        (errno.EIO, "Input/output error"),
    ],
)
def test_a_trial_that_cannot_be_written_down_counts(
    logged: LoggedBench, monkeypatch: pytest.MonkeyPatch, number: int, said: str
) -> None:
    def fail(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("hasten.tuning.recording.safe_files.write", fail)
    assert logged.confirm(BF16, Effort(4)).failure == "out of memory"
    assert logged.lost == said


@pytest.mark.attack("together")
def test_a_journal_that_is_full_loses_no_trial(logged: LoggedBench, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr(Journal, "_insert", fail)
    assert logged.confirm(BF16, Effort(4)).failure == "out of memory"
    assert logged.lost == "the disk is full"
