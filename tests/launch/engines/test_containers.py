"""The commands that start a container."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hasten.errors import UsageError
from hasten.launch.engines.containers import Apptainer, Docker
from hasten.records.launch_job import LaunchJob, Nodes

from .jobs import HOSTILE_WORDS, JOB

ONE = replace(JOB, nproc_per_node=2, image="train:1", environment={})
TWO = replace(ONE, nodes=Nodes(2, 2), address="h1", interface="eth1")
IN_IT = ("hasten", "run", "--nproc-per-node", "2", "train.py", "--lr", "1")


def test_docker_on_one_host_has_a_network_of_its_own() -> None:
    job = replace(ONE, environment={"A_TOKEN": "x"}, secrets=frozenset({"A_TOKEN"}), options=("--gpus=all",))
    (start,) = Docker().render(job).starts
    assert start.argv == (
        *("docker", "run", "--rm", "--init", "--shm-size=1g"),
        "--mount=type=bind,source=/home/me/project,target=/home/me/project",
        *("--workdir=/home/me/project", "--env", "A_TOKEN", "--gpus=all", "train:1", *IN_IT),
    )
    assert start.environment == {"A_TOKEN": "x"}


def test_docker_on_several_hosts_is_started_on_each() -> None:
    (start,) = Docker().render(TWO).starts
    assert "--network=host" in start.argv
    assert start.argv[start.argv.index("hasten") :] == (
        *("hasten", "run", "--nproc-per-node", "2", "--engine", "torchrun", "--nnodes", "2"),
        *("--rdzv-endpoint", "h1:29400", "--rdzv-id", "hasten-0123456789ab", "--interface", "eth1"),
        *("train.py", "--lr", "1"),
    )


def test_ranks_that_may_begin_anew_are_torchruns() -> None:
    (start,) = Docker().render(replace(ONE, max_restarts=3, group_timeout_seconds=60.0)).starts
    assert start.argv[start.argv.index("hasten") :] == (
        *("hasten", "run", "--nproc-per-node", "2", "--engine", "torchrun", "--group-timeout=60"),
        *("--max-restarts", "3", "train.py", "--lr", "1"),
    )


def test_apptainer() -> None:
    (start,) = Apptainer().render(replace(ONE, image="train.sif")).starts
    assert start.argv == (
        *("apptainer", "exec", "--bind=/home/me/project", "--pwd=/home/me/project", "train.sif"),
        *IN_IT,
    )


@pytest.mark.attack("arguments")
@pytest.mark.parametrize("engine", [Docker(), Apptainer()], ids=lambda engine: engine.name)
def test_words_stay_apart(engine: Docker | Apptainer) -> None:
    (start,) = engine.render(replace(ONE, command=(*ONE.command, *HOSTILE_WORDS))).starts
    assert start.argv[-len(HOSTILE_WORDS) :] == HOSTILE_WORDS


@pytest.mark.attack("arguments")
@pytest.mark.parametrize(
    ("engine", "folder"),
    [(Docker(), "/a,source=/etc"), (Docker(), '/a"b'), (Apptainer(), "/a:/etc"), (Apptainer(), "/a,/etc")],
)
def test_a_folder_whose_name_would_be_read_as_more_is_refused(
    engine: Docker | Apptainer, folder: str
) -> None:
    with pytest.raises(UsageError, match="its name would be split in two"):
        engine.render(replace(ONE, folder=folder))


@pytest.mark.parametrize(
    ("job", "why"),
    [
        (replace(ONE, image=""), "needs --image IMAGE"),
        (replace(TWO, address=""), "say where ranks meet by --rdzv-endpoint"),
        (replace(TWO, hosts=("h1", "h2")), "start it on each host"),
    ],
)
def test_what_is_missing_is_asked_for(job: LaunchJob, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        Docker().render(job)
