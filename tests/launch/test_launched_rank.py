"""Which rank a process is, told by the launcher's variables."""

from __future__ import annotations

import pytest

from hasten.launch.launched_rank import LaunchedRank, as_launchers, launched_rank

OPEN_MPI = {
    "OMPI_COMM_WORLD_RANK": "3", "OMPI_COMM_WORLD_SIZE": "4", "OMPI_COMM_WORLD_LOCAL_RANK": "1",
    "OMPI_COMM_WORLD_LOCAL_SIZE": "2", "PMIX_NAMESPACE": "prterun-box-77@1",
}  # fmt: skip
MPICH = {"PMI_RANK": "1", "PMI_SIZE": "2", "MPI_LOCALRANKID": "1", "MPI_LOCALNRANKS": "2"}
SRUN = {
    "SLURM_PROCID": "5", "SLURM_NTASKS": "6", "SLURM_STEP_NUM_TASKS": "6", "SLURM_LOCALID": "1",
    "SLURM_STEP_TASKS_PER_NODE": "2(x3)", "SLURM_JOB_ID": "91", "SLURM_STEP_ID": "0",
}  # fmt: skip
TORCHRUN = {"RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2"}


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        (TORCHRUN, ("torchrun", 1, 2, 1, 2)),
        (OPEN_MPI, ("mpirun", 3, 4, 1, 2)),
        (MPICH, ("mpiexec", 1, 2, 1, 2)),
        (SRUN, ("srun", 5, 6, 1, 2)),
        ({"PMI_RANK": "1", "PMI_SIZE": "2"}, ("mpiexec", 1, 2, 1, 2)),
        ({**MPICH, **TORCHRUN, "RANK": "0"}, ("torchrun", 0, 2, 1, 2)),
    ],
)
def test_each_launcher_is_known(
    environment: dict[str, str], expected: tuple[str, int, int, int, int]
) -> None:
    found = launched_rank(environment)
    assert found is not None
    assert (found.launcher, found.rank, found.size, found.local_rank, found.local_size) == expected


@pytest.mark.parametrize(
    "environment",
    [
        {},
        {"RANK": "0"},
        {"RANK": "zero", "WORLD_SIZE": "2"},
        {"SLURM_PROCID": "0", "SLURM_NTASKS": "4", "SLURM_JOB_ID": "91"},  # a batch script
    ],
)
def test_without_a_launcher_there_is_no_rank(environment: dict[str, str]) -> None:
    assert launched_rank(environment) is None


def test_a_script_that_reads_torchruns_names_finds_them() -> None:
    found = launched_rank(MPICH)
    assert found is not None
    told = found.variables({})
    assert {name: told[name] for name in TORCHRUN} == TORCHRUN
    assert told["MASTER_ADDR"] == "127.0.0.1"
    assert 20000 <= int(told["MASTER_PORT"]) < 30000


def test_what_is_there_stays() -> None:
    found = launched_rank(TORCHRUN)
    assert found is not None
    assert found.variables({**TORCHRUN, "MASTER_ADDR": "a", "MASTER_PORT": "1"}) == {}


def test_all_ranks_of_a_launch_agree_on_the_port_and_two_launches_do_not() -> None:
    def port(rank: int, job: str) -> str:
        return LaunchedRank("mpirun", rank, 2, rank, 2, job).variables({})["MASTER_PORT"]

    assert port(0, "a@1") == port(1, "a@1") != port(0, "b@1")


def test_between_machines_no_address_is_made_up() -> None:
    found = launched_rank(SRUN)
    assert found is not None
    assert "MASTER_ADDR" not in found.variables({})


def test_a_script_that_reads_another_launchers_names_finds_them() -> None:
    names = ("PMI_RANK", "PMI_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", "RANK")
    assert as_launchers(names, 1, 4) == {
        "PMI_RANK": "1",
        "PMI_SIZE": "4",
        "OMPI_COMM_WORLD_LOCAL_RANK": "1",
    }
