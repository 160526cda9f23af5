"""A script that knows of no ranks finds nothing that tells of them."""

from __future__ import annotations

from hasten.launch.launched_rank import launched_rank
from hasten.launch.unranked import without_ranks

KEPT = {"HOME": "/h", "SLURM_JOB_ID": "7", "SLURM_CPUS_PER_TASK": "4", "OMP_NUM_THREADS": "2", "FRANK": "1"}
LAUNCHERS = {
    **{"RANK": "0", "WORLD_SIZE": "2", "LOCAL_RANK": "0", "MASTER_ADDR": "a", "TORCHELASTIC_RUN_ID": "1"},
    **{"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "2", "PMIX_RANK": "0", "PMI_RANK": "0"},
    **{"PMI_SIZE": "2", "SLURM_PROCID": "0", "SLURM_STEP_NUM_TASKS": "2", "SLURM_NTASKS": "2"},
    **{"HASTEN_JOB_TOKEN": "a secret of sixteen", "HASTEN_NNODES": "2", "HASTEN_DEADLINE": "9"},
}


def test_all_of_every_launcher_is_taken_out_and_nothing_else() -> None:
    assert without_ranks({**KEPT, **LAUNCHERS}) == KEPT
    assert launched_rank(without_ranks({**KEPT, **LAUNCHERS})) is None
