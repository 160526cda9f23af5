"""What a tune came to is read back from the journal as it was."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from hasten.errors import HastenError
from hasten.records.result import TuneResult
from hasten.scripts.workspace import Workspace, find_script
from hasten.tuning.history import PastTune, past_tunes
from hasten.tuning.journal import Journal

from ..report.made_up import GAIN, NO_GAIN, NOT_CHECKED


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text("print('training')")
    made = Workspace(find_script("train.py", []))
    made.make()
    return made


def tuned(workspace: Workspace, result: TuneResult | None, state: str = "finished") -> None:
    identity = {"script": workspace.folder.name, "argv": list(workspace.script.argv)}
    journal = Journal(workspace.journal_path, identity)
    if result is not None:
        journal.conclude(result)
    journal.close(state)


def results(workspace: Workspace) -> list[TuneResult | None]:
    return [tune.result for tune in past_tunes(workspace)]


@pytest.mark.parametrize("result", [GAIN, NO_GAIN, NOT_CHECKED], ids=lambda result: str(result.outcome))
def test_a_result_is_read_back_as_it_was(workspace: Workspace, result: TuneResult) -> None:
    tuned(workspace, result)
    assert results(workspace) == [result]


def test_the_last_comes_first(workspace: Workspace) -> None:
    tuned(workspace, NO_GAIN)
    tuned(workspace, GAIN)
    tuned(workspace, None, "interrupted")
    assert results(workspace) == [None, GAIN, NO_GAIN]
    assert next(past_tunes(workspace)).state == "interrupted"


def test_other_scripts_share_the_journal(workspace: Workspace) -> None:
    Path("other.py").write_text("print('training')")
    other = Workspace(find_script("./other.py", []))
    tuned(workspace, GAIN)
    tuned(other, NO_GAIN)
    assert results(workspace) == [GAIN]
    assert results(Workspace(find_script("other.py", ["--epochs", "5"]))) == [NO_GAIN]


def test_without_a_journal_there_is_nothing(workspace: Workspace) -> None:
    assert results(workspace) == []
    assert not workspace.journal_path.exists()


def test_it_is_read_while_a_tune_goes_on(workspace: Workspace) -> None:
    identity = {"script": "train", "argv": ["train.py"]}
    with Journal(workspace.journal_path, identity) as journal:
        journal.conclude(GAIN)
        (found,) = past_tunes(workspace)
    assert found == PastTune(found.began, "open", ("train.py",), GAIN)


def test_a_tune_of_a_version_without_results_has_none(workspace: Workspace) -> None:
    Journal(workspace.journal_path, {"argv": ["train.py"], "digest": "c0ffee"}).close("finished")
    tuned(workspace, None)
    with closing(sqlite3.connect(workspace.journal_path)) as database, database:
        database.execute("UPDATE tunes SET result = 'null'")
    assert results(workspace) == [None]


@pytest.mark.attack("messages")
@pytest.mark.parametrize("text", ["[]", "{}", "7", '{"outcome": "gain", "reason": 3, "plan": 4}', "no JSON"])
def test_a_result_that_is_none_is_named(workspace: Workspace, text: str) -> None:
    tuned(workspace, GAIN)
    with closing(sqlite3.connect(workspace.journal_path)) as database, database:
        database.execute("UPDATE tunes SET result = ?", (text,))
    with pytest.raises(HastenError, match=r"result of tune 1 in .*cannot be read.*Tune again"):
        results(workspace)


def test_what_is_read_changes_nothing(workspace: Workspace) -> None:
    tuned(workspace, replace(GAIN, tune_seconds=1.5))
    before = workspace.journal_path.read_bytes()
    results(workspace)
    assert workspace.journal_path.read_bytes() == before
