"""The environment of a script that knows of no ranks, below a launcher that tells of them."""

from __future__ import annotations

from collections.abc import Mapping

from .job_key import VARIABLE
from .pulse import DEADLINE
from .split_worlds import HOSTS

OURS = frozenset((VARIABLE, DEADLINE, HOSTS))
"""Set by the user for us: nothing that a script should know."""


def without_ranks(environment: Mapping[str, str]) -> dict[str, str]:
    """``environment`` without all that tells of ranks: a script that knows of none would be misled."""
    return {name: value for name, value in environment.items() if not _tells_of_ranks(name)}


_OF_RANKS = {
    *("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "NODE_RANK"),
    *("GROUP_RANK", "GROUP_WORLD_SIZE", "ROLE_RANK", "ROLE_WORLD_SIZE", "ROLE_NAME", "MPI_LOCALRANKID"),
    *("MPI_LOCALNRANKS", "MPI_LOCALNRANKSPERNODE", "SLURM_PROCID", "SLURM_LOCALID", "SLURM_NODEID"),
    *("SLURM_NTASKS", "SLURM_NPROCS", "SLURM_STEP_NUM_TASKS", "SLURM_STEP_TASKS_PER_NODE", "SLURM_GTIDS"),
    *("SLURM_TASKS_PER_NODE", "SLURM_NTASKS_PER_NODE", "SLURM_TASK_PID", "SLURM_STEP_NUM_NODES"),
    *("SLURM_STEP_NODELIST", "SLURM_JOB_NUM_NODES", "SLURM_NNODES", "SLURM_JOB_NODELIST", "SLURM_NODELIST"),
    *("TORCH_NCCL_ASYNC_ERROR_HANDLING", *OURS),
}
_BEGINNINGS = ("TORCHELASTIC_", "OMPI_", "PMI_", "PMIX_", "PRTE_", "PALS_", "HYDRA_", "HYDI_", "MPIR_")


def _tells_of_ranks(name: str) -> bool:
    return name in _OF_RANKS or name.startswith(_BEGINNINGS)
