"""Files for Kubernetes and SkyPilot, read back as those read them."""

from __future__ import annotations

import os
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from hasten.errors import UsageError
from hasten.launch.engines.exporters import Kubernetes, SkyPilot
from hasten.records.launch_job import LaunchJob, Nodes

from .jobs import HOSTILE, HOSTILE_WORDS, JOB
from .trainjob_shape import check

IN_IMAGE = replace(JOB, nodes=Nodes(2, 2), nproc_per_node=4, image="registry.example.org/me/train:1")
SECRET = replace(IN_IMAGE, environment={"A": "1", "A_TOKEN": "hidden"}, secrets=frozenset({"A_TOKEN"}))


def document(engine: Kubernetes | SkyPilot, job: LaunchJob) -> Any:
    (text,) = engine.render(job).files.values()
    assert "hidden" not in text
    return yaml.safe_load(text)


def test_a_train_job() -> None:
    found = document(Kubernetes(), replace(IN_IMAGE, options=("cpu=8", "nvidia.com/gpu=4")))
    check(found)
    assert found["metadata"]["name"] == "hasten-0123456789ab"
    trainer = found["spec"]["trainer"]
    assert (trainer["numNodes"], trainer["numProcPerNode"]) == (2, 4)
    assert trainer["command"] == ["torchrun", "--no-python"]
    assert trainer["args"] == ["hasten", "run", "train.py", "--lr", "1"]
    assert {"name": "OMP_NUM_THREADS", "value": "1"} in trainer["env"]
    assert trainer["resourcesPerNode"]["limits"] == {"cpu": "8", "nvidia.com/gpu": "4"}


def test_secrets_of_a_train_job_are_kubernetes_own() -> None:
    found = document(Kubernetes(), SECRET)
    check(found)
    secret = {"secretKeyRef": {"name": "hasten-0123456789ab", "key": "A_TOKEN"}}
    assert {"name": "A_TOKEN", "valueFrom": secret} in found["spec"]["trainer"]["env"]


@pytest.mark.parametrize(
    ("field", "value", "error"),
    [
        ("numNodes", "2", "numNodes"),
        ("env", [{"value": 1}], "value"),
        ("args", None, "otherwise"),
        ("nodes", 2, "otherwise"),
    ],
)
def test_a_train_job_that_is_wrong_does_not_pass(field: str, value: object, error: str) -> None:
    found = document(Kubernetes(), IN_IMAGE)
    found["spec"]["trainer"][field] = value
    with pytest.raises((ValueError, AssertionError), match=error):
        check(found)


@pytest.mark.attack("arguments")
def test_words_come_back_from_a_train_job_as_they_are() -> None:
    found = document(Kubernetes(), replace(HOSTILE, hosts=(), image="i"))
    trainer = found["spec"]["trainer"]
    assert tuple(trainer["args"][-len(HOSTILE_WORDS) :]) == HOSTILE_WORDS
    assert trainer["env"] == [{"name": "PYTHONPATH", "value": HOSTILE.environment["PYTHONPATH"]}]


def run_task(task: Any, folder: Path, *, nodes: int) -> list[str]:
    """What SkyPilot's shell would start torchrun with."""
    programs = folder / "bin"
    programs.mkdir()
    (programs / "torchrun").write_text('#!/bin/sh\nprintf "%s\\0" "$@" > "$TOLD"\n')
    (programs / "torchrun").chmod(0o755)
    environment = {"PATH": f"{programs}:{os.environ['PATH']}", "TOLD": str(folder / "told")}
    environment |= {"SKYPILOT_NODE_IPS": "10.0.0.1\n10.0.0.2", "SKYPILOT_NODE_RANK": "1"}
    environment["SKYPILOT_NUM_NODES"] = str(nodes)
    subprocess.run(["bash", "-c", task["run"]], env=environment, cwd=folder, check=True)
    assert sorted(path.name for path in folder.iterdir()) == ["bin", "told"]
    return (folder / "told").read_text().split("\0")[:-1]


def test_a_task_of_skypilot(tmp_path: Path) -> None:
    task = document(SkyPilot(), replace(SECRET, options=("accelerators=A100:8",)))
    assert task["num_nodes"] == 2
    assert task["resources"] == {
        "accelerators": "A100:8",
        "image_id": "docker:registry.example.org/me/train:1",
    }
    assert (task["envs"], task["secrets"]) == ({"A": "1"}, {"A_TOKEN": None})
    assert run_task(task, tmp_path, nodes=2) == [
        *("--nnodes", "2", "--node-rank", "1", "--master-addr", "10.0.0.1", "--master-port", "29400"),
        *("--nproc-per-node", "4", "--no-python"),
        *("hasten", "run", "train.py", "--lr", "1"),
    ]


@pytest.mark.attack("arguments")
def test_words_come_back_from_a_task_as_they_are(tmp_path: Path) -> None:
    words = (*HOSTILE_WORDS, "tab\there", "\x1b[31m", "\u2028", "back\\slash'\n")
    task = document(SkyPilot(), replace(HOSTILE, hosts=(), command=(*JOB.command, *words)))
    assert tuple(run_task(task, tmp_path, nodes=2)[-len(words) :]) == words
    assert task["envs"] == HOSTILE.environment


def test_a_plan_goes_along_by_its_place_in_the_folder() -> None:
    job = replace(IN_IMAGE, command=(*JOB.command[:3], f"--plan={JOB.folder}/plans/a.toml", "train.py"))
    assert "--plan=plans/a.toml" in document(Kubernetes(), job)["spec"]["trainer"]["args"]
    job = replace(job, command=(*JOB.command[:3], "--plan=/elsewhere/a.toml", "train.py"))
    with pytest.raises(UsageError, match="is outside of the working directory"):
        Kubernetes().render(job)


@pytest.mark.parametrize(
    ("engine", "job", "why"),
    [
        (Kubernetes(), replace(IN_IMAGE, image=""), "needs --image IMAGE"),
        (Kubernetes(), replace(IN_IMAGE, nodes=Nodes(1, 2)), "does not take --nnodes 1:2"),
        (Kubernetes(), replace(IN_IMAGE, options=("--privileged",)), "takes NAME=AMOUNT"),
        (SkyPilot(), replace(IN_IMAGE, max_restarts=1), "does not take --max-restarts 1"),
        (SkyPilot(), replace(IN_IMAGE, hosts=("h1", "h2")), "does not take --hosts"),
    ],
)
def test_what_they_do_not_do_is_refused_by_name(
    engine: Kubernetes | SkyPilot, job: LaunchJob, why: str
) -> None:
    with pytest.raises(UsageError, match=why):
        engine.render(job)
