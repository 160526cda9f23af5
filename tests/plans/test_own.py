"""Each script has its own plan, also where an older version kept several in one folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from hasten.plans.files import SavedPlan, write_plan
from hasten.plans.own import own_plan, prepare
from hasten.records.plan import Plan
from hasten.scripts.workspace import (
    Script,
    Workspace,
    find_module,
    find_script,
)

from ..scripts.test_workspace import made

pytestmark = pytest.mark.attack("truth")

PLAN = Plan({"bf16": {}})
ROOT = Path(".hasten")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("train.py", "a/train.py", "b/train.py"):
        made(tmp_path / name, f"print({name!r})\n".encode())
    made(tmp_path / "train.ipynb", b'{"cells": []}')
    return tmp_path


def script(typed: str) -> Script:
    return find_module(typed[3:], []) if typed.startswith("-m ") else find_script(typed, [])


def left_by_an_older_version(typed: str, folder: str, **more: str) -> SavedPlan:
    """What ``tune`` wrote for a script when folders were called by their names alone."""
    saved = SavedPlan(PLAN, {"script": typed, **more})
    (ROOT / folder / "trials/000").mkdir(parents=True)
    write_plan(ROOT / folder / "plan.toml", saved)
    return saved


def folders() -> set[str]:
    return {path.name for path in ROOT.iterdir() if path.is_dir()}


def plan_for(typed: str) -> SavedPlan | None:
    return own_plan(Workspace(script(typed)))[0]


CASES = [  # whose plan lies where, and where it belongs
    ("a/train.py", "train", "a.train"),
    ("./a/train.py", "train", "a.train"),
    ("b/../a/train.py", "train", "a.train"),
    ("-m a.train", "a.train", "a.train.module"),
    ("-m train", "train", "train.module"),
    ("train.ipynb", "train", "train.ipynb"),
]


@pytest.mark.parametrize(("typed", "old", "new"), CASES)
def test_it_is_found_where_an_older_version_left_it(typed: str, old: str, new: str) -> None:
    saved = left_by_an_older_version(typed, old)
    assert plan_for(typed) == saved
    assert folders() == {new}
    assert (ROOT / new / "trials/000").is_dir()


@pytest.mark.parametrize("other", ["train.py", "b/train.py", "train.ipynb", "-m train", "-m b.train"])
def test_it_is_not_another_scripts(other: str) -> None:
    saved = left_by_an_older_version("a/train.py", "train")
    assert plan_for(other) is None
    assert plan_for("a/train.py") == saved


@pytest.mark.parametrize(("typed", "old", "new"), CASES)
def test_a_tune_makes_room_for_the_script_whose_name_it_is(typed: str, old: str, new: str) -> None:
    saved = left_by_an_older_version(typed, old)
    whose = {"train": "train.py", "a.train": "a/train.py"}[old]
    workspace = Workspace(script(whose))
    prepare(workspace)
    assert folders() == {old, new}
    assert own_plan(workspace) == (None, "")
    assert plan_for(typed) == saved


def test_a_tune_takes_its_trials_along() -> None:
    left_by_an_older_version("a/train.py", "train")
    workspace = Workspace(script("a/train.py"))
    prepare(workspace)
    assert workspace.new_trial() == ROOT / "a.train/trials/001"


def test_it_is_used_where_it_is_its_own() -> None:
    saved = left_by_an_older_version("train.py", "train")
    assert plan_for("train.py") == saved
    assert plan_for("./train.py") == saved
    assert folders() == {"train"}


def test_a_plan_by_hand_says_nothing_of_its_origin() -> None:
    write_by_hand = ROOT / "train/plan.toml"
    made(write_by_hand, b"format = 1\n[techniques.bf16]\n")
    assert plan_for("train.py") == SavedPlan(PLAN)
    assert plan_for("a/train.py") is None


def test_a_plan_that_was_put_here_is_not_used_and_not_moved() -> None:
    left_by_an_older_version("somewhere/else.py", "train", digest="another")
    found, remark = own_plan(Workspace(script("train.py")))
    assert found is None
    assert remark == (
        "the plan in .hasten/train/plan.toml was made for another script, 'somewhere/else.py', and is "
        "not used; to train under it anyway: hasten run --plan .hasten/train/plan.toml train.py"
    )
    assert folders() == {"train"}


def test_a_script_that_was_renamed_keeps_its_plan() -> None:
    """Its folder was renamed with it, and its content is the same."""
    saved = left_by_an_older_version("before.py", "train", digest=script("train.py").digest())
    assert plan_for("train.py") == saved


def test_a_copy_of_a_script_is_another(folder: Path) -> None:
    (folder / "b/train.py").write_bytes((folder / "a/train.py").read_bytes())
    left_by_an_older_version("a/train.py", "train", digest=script("a/train.py").digest())
    assert plan_for("b/train.py") is None


def test_what_is_there_already_is_not_replaced() -> None:
    saved = left_by_an_older_version("a/train.py", "a.train")
    left_by_an_older_version("a/train.py", "train")
    assert plan_for("a/train.py") == saved
    assert folders() == {"a.train", "train"}
    assert plan_for("train.py") is None  # and the old one is not used for it


@pytest.mark.parametrize(
    "label", ["", "..", "../..", "/", "-m ../../x", "-m ", "a\0b", "x" * 5000, "\x1b[2J.py"]
)
def test_a_name_of_somebodys_making_leads_nowhere(folder: Path, label: str) -> None:
    """Quoted as TOML quotes it; nothing is moved out of ``.hasten``."""
    left_by_an_older_version(label, "train", digest="another")
    before = sorted(path.name for path in folder.iterdir())
    found, remark = own_plan(Workspace(script("train.py")))
    assert "\x1b" not in remark
    assert found is None or "\0" in label
    assert sorted(path.name for path in folder.iterdir()) == before
    assert folders() == {"train"}


@pytest.mark.parametrize("label", [1, True, ["train.py"], {"a": 1}, 1.5])
def test_a_label_that_is_no_text_says_nothing(label: object) -> None:
    (ROOT / "train").mkdir(parents=True)
    write_plan(ROOT / "train/plan.toml", SavedPlan(PLAN, {"script": label}))
    assert plan_for("train.py") is not None
