"""SIGKILL at any moment: what was finished is there, and no file is half of one."""

from __future__ import annotations

import json
import random
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest

from hasten.errors import InUse
from hasten.plans.files import read_own_plan
from hasten.records.codec import from_json
from hasten.records.plan import Plan
from hasten.records.trial import Trial
from hasten.report.progress import Silent
from hasten.scripts.workspace import Workspace, find_script
from hasten.tuning.history import past_tunes
from hasten.tuning.pipeline import tune

from ..patience import PATIENCE_SECONDS
from .paper_tunes import EFFECTS, plan_for
from .test_pipeline import Paper, request
from .test_pipeline import paper as paper

ROOT = Path(__file__).parents[2]
TUNES = f"import sys; sys.path.insert(0, {str(ROOT)!r}); from tests.tuning.paper_tunes import main; main()"
MOST_LINES, LONGEST_SECONDS = 40, 0.02  # what two tunes say, and what the next line may take
PLANS = [plan_for(effects) for effects in EFFECTS]

pytestmark = pytest.mark.attack("signals")


@dataclass
class Told:
    """What tunes said to be finished before they were killed."""

    lines: list[str]

    @property
    def trials(self) -> int:
        return self.lines.count("tried")

    @property
    def plans(self) -> list[Plan]:
        return [plan_for(dict.fromkeys(line.split(), 1.0)) for line in self.lines if line not in _WORDS]


_WORDS = ("begin", "tried")


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text("print('training')")
    return Workspace(find_script("train.py", []))


def killed_after(lines: int, seconds: float = 0.0) -> Told:
    """Tunes in this folder, killed so long after they have said so much."""
    process = subprocess.Popen([sys.executable, "-c", TUNES], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    said = [process.stdout.readline().rstrip() for _ in range(lines)]
    time.sleep(seconds)
    process.send_signal(signal.SIGKILL)
    rest, _ = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == -signal.SIGKILL, "it came to its end by itself"
    return Told([*said, *rest.splitlines()])


def trials_of(workspace: Workspace) -> list[Trial]:
    """Of all tunes, from a journal that is whole."""
    with closing(sqlite3.connect(workspace.journal_path)) as database:
        assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        found = database.execute("SELECT trial FROM trials").fetchall()
        return [from_json(Trial, json.loads(text)) for (text,) in found]


@pytest.mark.parametrize("rounds", [4, pytest.param(60, marks=pytest.mark.thorough)])
def test_killed_at_any_moment_nothing_that_was_finished_is_lost(rounds: int, workspace: Workspace) -> None:
    moments, trials = random.Random(7), 0
    results = 0
    for number in range(rounds):
        lines = moments.randint(1, MOST_LINES) if number else MOST_LINES
        told = killed_after(lines, moments.uniform(0, LONGEST_SECONDS))
        trials += told.trials
        found = trials_of(workspace)
        assert len(found) >= trials
        trials = len(found)
        results += len(told.plans)
        kept = [past.result for past in past_tunes(workspace) if past.result is not None]
        assert len(kept) >= results
        results = len(kept)
        saved = read_own_plan(workspace.plan_path)  # raises where it is half of one
        assert saved is not None or not told.plans
        assert saved is None or saved.plan in PLANS
        so_far = read_own_plan(workspace.unconfirmed_path)
        assert so_far is None or so_far.measured["outcome"] == "not-confirmed"
    assert results > 0


def test_the_next_tune_goes_to_its_end(paper: Paper) -> None:
    killed_after(lines=5)
    paper.effects = EFFECTS[0]
    assert tune(request(), Silent()).plan == PLANS[0]
    last, *before = past_tunes(Workspace(request().script))
    assert last.state == "finished"
    assert {past.state for past in before} <= {"finished", "killed"}


@pytest.mark.attack("together")
def test_of_two_tunes_at_once_the_second_is_refused_and_the_first_goes_on(
    paper: Paper, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = []

    def guard(*words: object) -> object:
        with pytest.raises(InUse):
            tune(request(), Silent())
        refused.append(True)
        return Paper.guard(paper, *words)  # type: ignore[arg-type]

    monkeypatch.setattr("hasten.tuning.accuracy.guard", guard)
    paper.effects = EFFECTS[0]
    assert tune(request(), Silent()).plan == PLANS[0]
    assert refused == [True]
    (only,) = past_tunes(Workspace(request().script))
    assert only.state == "finished"
