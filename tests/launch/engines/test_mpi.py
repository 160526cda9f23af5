"""The command lines of mpirun and mpiexec."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hasten.errors import UsageError
from hasten.launch.engines.engine import LaunchEngine
from hasten.launch.engines.mpi import Mpich, OpenMpi, is_open_mpi
from hasten.records.launch_job import Nodes

from .jobs import HOSTILE, HOSTILE_WORDS, JOB, TWO

BOTH: list[LaunchEngine] = [OpenMpi(), Mpich()]


def test_open_mpi_on_one_machine_binds_nothing_and_counts_no_slots() -> None:
    (start,) = OpenMpi().render(replace(JOB, nproc_per_node=4)).starts
    assert start.argv == (
        *("mpirun", "-n", "4", "--bind-to", "none", "--wdir", "/home/me/project", "--oversubscribe"),
        *JOB.command,
    )
    assert "MASTER_ADDR" not in start.environment  # it follows from the job


def test_open_mpi_on_two_hosts() -> None:
    (start,) = OpenMpi().render(replace(TWO, interface="eth1")).starts
    assert start.argv == (
        *("mpirun", "-n", "4", "--bind-to", "none", "--wdir", "/home/me/project"),
        *("--host", "h1:2,h2:2", "--map-by", "slot"),
        *("-x", "OMP_NUM_THREADS", "-x", "HASTEN_LAUNCHED", "-x", "MASTER_ADDR", "-x", "MASTER_PORT"),
        *JOB.command,
    )
    assert start.environment["MASTER_ADDR"] == "h1"
    assert start.environment["MASTER_PORT"] == "29400"
    assert start.environment["OMPI_MCA_oob_tcp_if_include"] == "eth1"
    assert start.environment["OMPI_ALLOW_RUN_AS_ROOT"] == "1"


def test_mpich_on_two_hosts() -> None:
    (start,) = Mpich().render(replace(TWO, interface="eth1")).starts
    assert start.argv == (
        *("mpiexec.hydra", "-n", "4", "-wdir", "/home/me/project", "-hosts", "h1,h2", "-ppn", "2"),
        *("-iface", "eth1", *JOB.command),
    )
    assert (start.environment["MASTER_ADDR"], start.environment["MASTER_PORT"]) == ("h1", "29400")


def test_mpich_on_one_machine() -> None:
    (start,) = Mpich().render(replace(JOB, nproc_per_node=2)).starts
    assert start.argv == ("mpiexec.hydra", "-n", "2", "-wdir", "/home/me/project", *JOB.command)


@pytest.mark.parametrize("engine", BOTH, ids=lambda engine: engine.name)
@pytest.mark.parametrize(
    ("job", "why"),
    [
        (replace(TWO, nodes=Nodes(1, 2)), "does not take --nnodes 1:2: it starts a fixed number of hosts"),
        (replace(TWO, max_restarts=1), "does not take --max-restarts 1"),
        (replace(TWO, node_rank=1), "does not take --node-rank"),
        (replace(TWO, hosts=()), "--nnodes 2: say which hosts"),
        (replace(TWO, hosts=("fd00::1", "h2")), "does not take IPv6 addresses"),
    ],
)
def test_what_mpi_does_not_do_is_refused_by_name(engine: LaunchEngine, job: object, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        engine.render(job)  # type: ignore[arg-type]


@pytest.mark.attack("arguments")
@pytest.mark.parametrize("engine", BOTH, ids=lambda engine: engine.name)
def test_words_stay_apart_and_values_go_by_the_environment(engine: LaunchEngine) -> None:
    (start,) = engine.render(HOSTILE).starts
    assert start.argv[-len(HOSTILE_WORDS) :] == HOSTILE_WORDS
    assert HOSTILE.folder in start.argv
    assert start.environment["PYTHONPATH"] == HOSTILE.environment["PYTHONPATH"]
    assert not any(HOSTILE.environment["PYTHONPATH"] in word for word in start.argv)


@pytest.mark.parametrize(
    ("version", "open_mpi"),
    [
        ("mpirun (Open MPI) 4.1.4", True),
        ("mpirun (PRTE) 3.0.7", True),
        ("HYDRA build details:\n    Version: 4.2", False),
        ("", False),
    ],
)
def test_whose_mpirun_it_is(version: str, open_mpi: bool) -> None:
    assert is_open_mpi(version) == open_mpi
