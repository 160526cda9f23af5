"""The plan that a tune writes."""

from __future__ import annotations

import errno
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from hasten.errors import OutputLost
from hasten.plans.files import read_plan
from hasten.plans.saving import save_plan
from hasten.records.plan import BASELINE, Plan
from hasten.records.result import TuneResult
from hasten.records.sources import SourceDigests
from hasten.scripts.workspace import Workspace, find_script
from hasten.tuning.conclusion import Found, conclude
from tests.bench.made_up import facts, trial, verdict

PLAN = Plan({"dataset_in_ram": {}, "threads": {"count": 2}})
CLEAR = [0.5, 0.51, 0.49, 0.5]
NOISE = [0.9, 1.1, 0.95, 1.02]


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text("print('training')")
    made = Workspace(find_script("train.py", ["--epochs", "5"]))
    made.make()
    return made


def measured(ratios: Sequence[float], looks: Sequence[float] = ()) -> TuneResult:
    made_of = SourceDigests("of the script", {"losses.py": "of the losses"})
    confirmation = trial(ratios, PLAN, looks=tuple(looks))
    found = Found(facts(), 100.0, verdict=verdict(), trial=confirmation)
    return replace(conclude(found), sources=made_of)


def test_a_gain_is_written_as_a_plan_that_can_be_read_back(workspace: Workspace) -> None:
    save_plan(workspace, measured(CLEAR))
    saved = read_plan(workspace.plan_path)
    assert saved.plan == PLAN
    assert saved.measured["outcome"] == "gain"
    assert saved.measured["speedup"] == pytest.approx(2.0, rel=0.01)
    assert saved.measured["low"] < saved.measured["speedup"] < saved.measured["high"]
    assert saved.measured["processes"] == 4
    assert saved.made_for["script"] == "train.py"
    assert saved.made_for["arguments"] == ["--epochs", "5"]
    assert saved.made_for["digest"] == "of the script"
    assert saved.made_for["modules"] == {"losses.py": "of the losses"}
    assert saved.made_for["torch"] == "2.13.0"


def test_a_plan_for_ranks_says_how_many(workspace: Workspace) -> None:
    save_plan(workspace, replace(measured(CLEAR), nproc=2))
    assert read_plan(workspace.plan_path).made_for["nproc_per_node"] == 2


def test_a_plan_says_what_was_not_measured_by_pairs_or_not_judged(workspace: Workspace) -> None:
    save_plan(workspace, measured(CLEAR))
    assert not {"alone", "quality"} & set(read_plan(workspace.plan_path).measured)
    changing = replace(measured(CLEAR, looks=(0.0, 0.0)), guard=replace(verdict(), changes=("batch_size",)))
    save_plan(workspace, changing)
    said = read_plan(workspace.plan_path).measured
    assert said["alone"] == "2 further processes under the plan, none of them slow"
    assert said["quality"].startswith("model quality was not checked")


def test_no_gain_replaces_an_older_plan_by_the_empty_one(workspace: Workspace) -> None:
    save_plan(workspace, measured(CLEAR))
    save_plan(workspace, measured(NOISE))
    saved = read_plan(workspace.plan_path)
    assert saved.plan == BASELINE
    assert saved.measured["outcome"] == "no-gain"
    assert "speedup" not in saved.measured


@pytest.mark.attack("together")
def test_a_plan_whose_folder_was_cleared_away_is_written_all_the_same(workspace: Workspace) -> None:
    shutil.rmtree(workspace.root)
    save_plan(workspace, measured(CLEAR))
    assert read_plan(workspace.plan_path).plan == PLAN


@pytest.mark.attack("together")
@pytest.mark.parametrize(("ratios", "gained"), [(CLEAR, True), (NOISE, False)])
def test_a_plan_that_cannot_be_written_is_told_as_a_command(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch, ratios: Sequence[float], gained: bool
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("hasten.plans.saving.write_plan", full)
    with pytest.raises(OutputLost) as told:
        save_plan(workspace, measured(ratios))
    said, command = str(told.value).partition(". Without it, ")[::2]
    assert said == f"the plan could not be written to {workspace.plan_path}: the disk is full"
    assert bool(command) == gained
    assert not gained or "--use " in command
    assert not gained or command.endswith(" train.py")
