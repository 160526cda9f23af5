"""``hasten export``: the plan as code that a person would write."""

from __future__ import annotations

from pathlib import Path

import pytest

from hasten.cli.main import main
from hasten.inside.techniques.catalog import CATALOG
from hasten.plans.files import SavedPlan, write_plan
from hasten.records.plan import Plan
from hasten.scripts.workspace import Workspace, find_script


@pytest.fixture(autouse=True)
def _project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text("print('training')")


def saved(path: Path, **measured: object) -> None:
    plan = Plan({"threads": {"count": 2}, "bf16": {}})
    write_plan(path, SavedPlan(plan, {"script": "train.py", "machine": "AMD EPYC"}, measured))


def test_each_technique_as_its_own_code(capsys: pytest.CaptureFixture[str]) -> None:
    workspace = Workspace(find_script("train.py", []))
    workspace.make()
    saved(workspace.plan_path, speedup=1.5, low=1.4, high=1.6)
    assert main(["export", "train.py"]) == 0
    head, threads, bf16 = capsys.readouterr().out.split("\n\n")
    assert head.splitlines()[-1] == "# Measured under hasten: 1.50x (1.40 to 1.60) on AMD EPYC."
    assert threads.splitlines()[0].startswith("# threads (count=2), risk exact: ")
    assert threads.partition("\n")[2] == CATALOG["threads"].by_hand({"count": 2})
    assert bf16.partition("\n")[2].rstrip("\n") == CATALOG["bf16"].by_hand({})


def test_a_plan_elsewhere_less_one_technique(capsys: pytest.CaptureFixture[str]) -> None:
    saved(Path("other.toml"))
    assert main(["export", "--plan", "other.toml", "--without", "bf16", "train.py"]) == 0
    said = capsys.readouterr().out
    assert "OMP_NUM_THREADS=2" in said
    assert "bf16" not in said
    assert "Measured" not in said


def test_without_a_plan_it_says_how_to_have_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", "train.py"]) == 2
    assert "no plan for train.py to export" in capsys.readouterr().err


def test_what_a_plan_says_of_its_origin_cannot_steer_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    plan = SavedPlan(Plan({"bf16": {}}), {"machine": "\x1b[2J"}, {"speedup": 2.0, "low": 1.9, "high": 2.1})
    write_plan(Path("other.toml"), plan)
    assert main(["export", "--plan", "other.toml", "train.py"]) == 0
    assert "\x1b" not in capsys.readouterr().out
