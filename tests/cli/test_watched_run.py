"""Which runs are compared with what their plan's steps took when it was tuned."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hasten.cli.main import main
from hasten.inside.job import Job
from hasten.machine import this_machine
from hasten.machine.torch_build import torch_version
from hasten.plans.files import SavedPlan, write_plan
from hasten.records.plan import BASELINE, Plan
from hasten.records.run_pace import TunedPace
from hasten.scripts.workspace import find_script

PACE = TunedPace(0.01, 0.011, 64.0)
MEASURED = {"step_seconds": 0.01, "step_seconds_most": 0.011, "samples_per_step": 64.0}
PLAN = Plan({"fused_optimizer": {}})
RUN = ["run", "--plan", "plan.toml"]


def written(plan: Plan = PLAN, measured: dict[str, Any] = MEASURED, **made_for: Any) -> None:
    script = find_script("train.py", ["--epochs", "5"])
    here = {
        "script": script.label,
        "digest": script.digest(),
        "arguments": ["--epochs", "5"],
        "machine": this_machine().identity,
        "torch": torch_version(),
    }
    write_plan(Path("plan.toml"), SavedPlan(plan, {**here, **made_for}, measured))


def tuned(jobs: list[Job]) -> TunedPace | None:
    (job,) = jobs
    assert job.watched is not None
    return job.watched.tuned


def test_a_run_as_the_plan_was_tuned_is_compared_with_that(jobs: list[Job]) -> None:
    written()
    assert main([*RUN, "train.py", "--epochs", "5"]) == 0
    assert tuned(jobs) == PACE


@pytest.mark.parametrize(
    ("made_for", "options", "arguments"),
    [
        ({"machine": "another one"}, [], ["--epochs", "5"]),
        ({"torch": "1.0"}, [], ["--epochs", "5"]),
        ({"digest": "of another version"}, [], ["--epochs", "5"]),
        ({"nproc_per_node": 2}, [], ["--epochs", "5"]),
        ({}, [], ["--epochs", "5", "--width", "512"]),
        ({}, ["--use", "denormals"], ["--epochs", "5"]),
        ({}, ["--nproc-per-node", "2"], ["--epochs", "5"]),
    ],
    ids=["machine", "torch", "script", "processes of the tune", "arguments", "techniques", "processes"],
)
def test_another_run_is_compared_with_itself_alone(
    jobs: list[Job], made_for: dict[str, Any], options: list[str], arguments: list[str]
) -> None:
    written(**made_for)
    assert main([*RUN, *options, "train.py", *arguments]) == 0
    assert tuned(jobs) is None


def test_a_rank_of_another_launcher_is_compared_with_itself_alone(
    jobs: list[Job], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"RANK": "0", "WORLD_SIZE": "2", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "2"}.items():
        monkeypatch.setenv(name, value)
    written()
    main([*RUN, "train.py", "--epochs", "5"])
    assert tuned(jobs) is None


def test_a_plan_of_an_older_version_is_read_as_before(jobs: list[Job]) -> None:
    written(measured={"speedup": 1.5})
    main([*RUN, "train.py", "--epochs", "5"])
    assert tuned(jobs) is None


def test_without_a_plan_nothing_is_watched(jobs: list[Job]) -> None:
    written(BASELINE)
    main([*RUN, "train.py", "--epochs", "5"])
    assert jobs[0].watched is None
