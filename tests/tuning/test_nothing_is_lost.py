"""However a tune ends, what it had found is on disk, and says whether it was confirmed."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from hasten.plans.files import SavedPlan, read_plan, write_plan
from hasten.records.caution import Caution
from hasten.records.plan import Plan
from hasten.report.progress import Silent
from hasten.scripts.workspace import Workspace
from hasten.tuning import accuracy
from hasten.tuning.history import past_tunes
from hasten.tuning.journal import Journal
from hasten.tuning.pipeline import tune
from tests.bench.made_up import unchecked

from .test_pipeline import PLAN_PATH, Paper, PaperBench, journal, plan_of, request
from .test_pipeline import paper as paper

UNCONFIRMED_PATH = PLAN_PATH.with_name("plan.unconfirmed.toml")
FOUND = plan_of("dataset_in_ram", "bf16")


def interrupt(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


def during_the_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once something was found."""
    compare = PaperBench.compare

    def compared(bench: PaperBench, a: Plan, b: Plan, seconds: float) -> object:
        if set(a.techniques) & set(FOUND.techniques):
            raise KeyboardInterrupt
        return compare(bench, a, b, seconds)

    monkeypatch.setattr(PaperBench, "compare", compared)


def during_the_guard(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accuracy, "guard", interrupt)


def during_the_confirmation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PaperBench, "confirm", interrupt)


MOMENTS = [
    (during_the_search, plan_of("malloc", "dataset_in_ram"), "not checked"),
    (during_the_guard, FOUND, "not checked"),
    (during_the_confirmation, FOUND, "held"),
]


@pytest.mark.attack("signals")
@pytest.mark.parametrize(("moment", "found", "checked"), MOMENTS)
def test_what_was_found_is_kept_where_a_tune_is_interrupted(
    paper: Paper,
    monkeypatch: pytest.MonkeyPatch,
    moment: Callable[[pytest.MonkeyPatch], None],
    found: Plan,
    checked: str,
) -> None:
    paper.effects = {"dataset_in_ram": 0.5, "bf16": 0.7}
    moment(monkeypatch)
    with pytest.raises(KeyboardInterrupt):
        tune(request(), Silent())
    saved = read_plan(UNCONFIRMED_PATH)
    assert saved.plan == found
    assert saved.measured["outcome"] == "not-confirmed"
    assert saved.measured["accuracy"] == checked
    assert saved.made_for["script"] == "train.py"
    assert not PLAN_PATH.exists()
    assert journal()[0] == ["interrupted"]


@pytest.mark.attack("truth")
def test_an_interrupted_tune_replaces_no_confirmed_plan(
    paper: Paper, monkeypatch: pytest.MonkeyPatch
) -> None:
    paper.effects = {"dataset_in_ram": 0.5}
    tune(request(), Silent())
    before = PLAN_PATH.read_bytes()
    paper.effects = {"bf16": 0.5}
    during_the_confirmation(monkeypatch)
    with pytest.raises(KeyboardInterrupt):
        tune(request(fresh=True), Silent())
    assert PLAN_PATH.read_bytes() == before
    assert read_plan(UNCONFIRMED_PATH).plan == plan_of("bf16")


@pytest.mark.parametrize("effects", [{"dataset_in_ram": 0.5}, {}], ids=["gain", "no gain"])
def test_a_tune_that_comes_to_its_end_leaves_its_answer_alone(
    paper: Paper, effects: dict[str, float]
) -> None:
    PLAN_PATH.parent.mkdir(parents=True, mode=0o700)
    write_plan(UNCONFIRMED_PATH, SavedPlan(FOUND, {}, {"outcome": "not-confirmed"}))
    paper.effects = effects
    result = tune(request(), Silent())
    assert read_plan(PLAN_PATH).plan == result.plan == plan_of(*effects)
    assert not UNCONFIRMED_PATH.exists()


def test_what_could_not_be_checked_is_kept(paper: Paper) -> None:
    paper.effects = {"dataset_in_ram": 0.5}
    paper.unseen = [unchecked("killed"), unchecked("killed")]
    assert tune(request(), Silent()).outcome == "not-checked"
    assert read_plan(UNCONFIRMED_PATH).plan == plan_of("dataset_in_ram")
    assert not PLAN_PATH.exists()


@pytest.mark.attack("truth")
def test_what_the_guard_stopped_is_not_kept(paper: Paper, monkeypatch: pytest.MonkeyPatch) -> None:
    paper.effects = {"dataset_in_ram": 0.5, "bf16": 0.7}
    paper.allowed = lambda plan: "bf16" not in plan.techniques
    during_the_confirmation(monkeypatch)
    with pytest.raises(KeyboardInterrupt):
        tune(request(), Silent())
    assert read_plan(UNCONFIRMED_PATH).plan == plan_of("dataset_in_ram")


def test_the_result_is_in_the_journal_as_it_was_told(paper: Paper) -> None:
    paper.effects = {"dataset_in_ram": 0.5, "bf16": 0.7, "threads": 1.4}
    paper.allowed = lambda plan: "bf16" not in plan.techniques
    result = tune(request(), Silent())
    (found,) = past_tunes(Workspace(request().script))
    assert found.state == "finished"
    assert found.result == result


@pytest.mark.attack("together")
def test_a_result_that_cannot_be_written_down_is_told(paper: Paper, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr(Journal, "conclude", full)
    paper.effects = {"dataset_in_ram": 0.5}
    result = tune(request(), Silent())
    assert result.outcome == "gain"
    assert result.warnings[-1] == Caution("not written down", text="the disk is full")
    assert read_plan(PLAN_PATH).plan == result.plan


@pytest.mark.attack("together")
def test_a_broken_journal_ends_no_tune_and_is_kept(paper: Paper) -> None:
    Path(".hasten").mkdir(mode=0o700)
    Path(".hasten/journal.db").write_bytes(b"this was never a database, " * 400)
    result = tune(request(), Silent())
    assert Caution("new journal", text=".hasten/journal.broken-1.db") in result.warnings
    assert Path(".hasten/journal.broken-1.db").read_bytes().startswith(b"this was never")
    assert journal()[0] == ["finished"]
