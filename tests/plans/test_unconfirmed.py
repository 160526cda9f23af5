"""A plan that is not confirmed is kept, says that it is not, and never stands in for one that is."""

from __future__ import annotations

from pathlib import Path

import pytest

from hasten.errors import UnsafeFile
from hasten.plans.files import SavedPlan, read_plan, write_plan
from hasten.plans.own import own_plan
from hasten.plans.unconfirmed import HELD, caveat, forget, keep, kept
from hasten.records.plan import BASELINE, Plan
from hasten.scripts.workspace import Workspace, find_script

PLAN = Plan({"bf16": {}, "threads": {"count": 2}})
MADE_FOR = {"script": "train.py", "machine": "this one"}


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text("print('training')")
    return Workspace(find_script("train.py", []))


def test_it_is_kept_with_what_it_was_made_for(workspace: Workspace) -> None:
    keep(workspace, PLAN, MADE_FOR)
    saved = kept(workspace)
    assert saved is not None
    assert (saved.plan, saved.made_for) == (PLAN, MADE_FOR)
    assert saved.measured["outcome"] == "not-confirmed"
    assert "speedup" not in saved.measured


@pytest.mark.attack("truth")
def test_it_is_no_plan_of_the_scripts_own(workspace: Workspace) -> None:
    keep(workspace, PLAN, MADE_FOR)
    assert own_plan(workspace) == (None, "")


@pytest.mark.attack("truth")
def test_a_confirmed_plan_stays(workspace: Workspace) -> None:
    workspace.make()
    confirmed = SavedPlan(Plan({"malloc": {}}), MADE_FOR, {"outcome": "gain"})
    write_plan(workspace.plan_path, confirmed)
    keep(workspace, PLAN, MADE_FOR)
    assert own_plan(workspace)[0] == confirmed


@pytest.mark.parametrize(
    ("accuracy", "said"), [("not checked", "accuracy was not checked"), (HELD, "accuracy held")]
)
def test_it_says_what_is_not_known_of_it(workspace: Workspace, accuracy: str, said: str) -> None:
    keep(workspace, PLAN, MADE_FOR, accuracy)
    words = caveat(read_plan(workspace.unconfirmed_path))
    assert words.startswith("not confirmed: ")
    assert "gain is a guess" in words
    assert said in words


def test_of_any_other_plan_there_is_nothing_to_say() -> None:
    assert caveat(SavedPlan(PLAN, MADE_FOR, {"outcome": "gain"})) == ""
    assert caveat(SavedPlan(PLAN)) == ""


def test_it_can_be_forgotten_twice(workspace: Workspace) -> None:
    keep(workspace, PLAN, MADE_FOR)
    for _ in range(2):
        forget(workspace)
        assert kept(workspace) is None


def test_the_empty_plan_is_not_kept(workspace: Workspace) -> None:
    keep(workspace, PLAN, MADE_FOR)
    keep(workspace, BASELINE, MADE_FOR)
    assert not workspace.unconfirmed_path.exists()


@pytest.mark.attack("intruders")
def test_a_link_in_its_place_is_neither_followed_nor_removed(workspace: Workspace) -> None:
    workspace.make()
    Path("mine").write_text("mine")
    workspace.unconfirmed_path.symlink_to(Path("mine").absolute())
    assert kept(workspace) is None
    with pytest.raises(UnsafeFile, match="is a link"):
        keep(workspace, PLAN, MADE_FOR)
    with pytest.raises(UnsafeFile, match="is a link"):
        forget(workspace)
    assert Path("mine").read_text() == "mine"
