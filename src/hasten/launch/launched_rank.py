"""This process's rank if another launcher started it: torchrun, mpirun or srun.

Sources: https://docs.pytorch.org/docs/stable/elastic/run.html, the manual pages of Open MPI's mpirun(1), of
MPICH's mpiexec (Hydra, which Intel MPI has too), and of srun(1), "OUTPUT ENVIRONMENT VARIABLES".
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass

from .rendezvous import LOCAL, as_torchrun

_PORTS = range(20000, 30000)  # below those that Linux assigns itself


@dataclass(frozen=True)
class LaunchedRank:
    """``job``: equal in all ranks of one launch, and rarely in two."""

    launcher: str
    rank: int
    size: int
    local_rank: int
    local_size: int
    job: str

    def variables(self, environment: Mapping[str, str]) -> dict[str, str]:
        """Variables of torchrun that are not set: for scripts that read only those names.

        Ranks of MPI and Slurm have no agreed free port: it is derived from the job.
        """
        place = (
            {"MASTER_ADDR": LOCAL, "MASTER_PORT": str(port_of(self.job))}
            if self.local_size == self.size
            else {}
        )
        wanted = as_torchrun(self.rank, self.size, place)
        wanted |= {"LOCAL_RANK": str(self.local_rank), "LOCAL_WORLD_SIZE": str(self.local_size)}
        plain = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
        return {name: wanted[name] for name in plain if name in wanted and name not in environment}


def port_of(job: str) -> int:
    """The port where ranks meet that cannot agree on a free one; two jobs rarely get the same."""
    return _PORTS[zlib.crc32(job.encode()) % len(_PORTS)]


_Names = tuple[str, str, str, str, str, tuple[str, ...]]
_LAUNCHERS: tuple[_Names, ...] = (  # name, then its variables: rank, size, local rank, local size, job
    ("torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", ("TORCHELASTIC_RUN_ID",)),
    (
        *("mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"),
        *("OMPI_COMM_WORLD_LOCAL_SIZE", ("PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid")),
    ),
    (
        *("srun", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", "SLURM_STEP_TASKS_PER_NODE"),
        ("SLURM_JOB_ID", "SLURM_STEP_ID"),
    ),
    ("mpiexec", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", ("PMI_PORT", "PMI_JOBID")),
)


def launched_rank(environment: Mapping[str, str]) -> LaunchedRank | None:
    """This process's rank; None if no launcher started it. Only the step of a Slurm job counts, not its batch
    script.
    """
    for launcher, rank, size, local_rank, local_size, jobs in _LAUNCHERS:
        if _number(environment, rank) is not None and _number(environment, size):
            many = _number(environment, size) or 1
            mine = _number(environment, rank) or 0
            return LaunchedRank(
                launcher,
                mine,
                many,
                local_rank=mine if (n := _number(environment, local_rank)) is None else n,
                local_size=_number(environment, local_size) or many,
                job=" ".join(environment.get(name, "") for name in jobs),
            )
    return None


def as_launchers(names: tuple[str, ...], number: int, size: int) -> dict[str, str]:
    """The variables of MPI and Slurm that a script reads, for rank ``number`` on one machine."""
    made = {"SLURM_NTASKS": size}
    for _, rank, many, local_rank, local_size, _ in _LAUNCHERS[1:]:
        made |= {rank: number, many: size, local_rank: number, local_size: size}
    return {name: str(made[name]) for name in names if name in made}


def _number(environment: Mapping[str, str], name: str) -> int | None:
    """A whole number; for Slurm's "2(x3)", two tasks on each of three nodes, the first."""
    text = environment.get(name, "").partition("(")[0]
    return int(text) if text.isdecimal() else None
