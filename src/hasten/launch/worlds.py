"""A rendezvous that is set wrongly makes each host a world of its own, which trains all by itself."""

from __future__ import annotations

from collections.abc import Mapping

from ..records.preflight import Fault

HOSTS = "HASTEN_NNODES"
_OUTER = (  # variables of launchers that may have started the one whose world this is: name, hosts of the job
    ("srun", "SLURM_STEP_NUM_NODES"),
    ("the job", HOSTS),
)
_ADVICE = (
    "give torchrun --nnodes and, on all hosts, one --rdzv-endpoint (or --master-addr) that is a host of the "
    "job: localhost is another one on each"
)


def faults_of_world(environment: Mapping[str, str], hosts: int) -> list[Fault]:
    """Where more hosts were started than the world has that this process is in."""
    for who, name in _OUTER:
        many = environment.get(name, "")
        if many.isdecimal() and int(many) != hosts:
            more = "each trains by itself, in a world of its own" if hosts == 1 else "the others are missing"
            text = f"{who} has {many} hosts ({name}), and this world has {hosts}: {more}"
            return [Fault(text, _ADVICE, stops=True)]
    ranks, here = (
        environment.get("OMPI_COMM_WORLD_SIZE", ""),
        environment.get("OMPI_COMM_WORLD_LOCAL_SIZE", ""),
    )
    if ranks.isdecimal() and here.isdecimal() and int(ranks) > int(here) and hosts == 1:
        text = f"mpirun has started {ranks} processes, {here} of them here, and this world has one host"
        return [Fault(f"{text}: each host trains by itself, in a world of its own", _ADVICE, stops=True)]
    return []
