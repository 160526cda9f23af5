"""Ranks of ours on this machine: one training's processes, each with its place, its cores, its GPU."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace

from ..errors import Refusal
from ..inside.job import Job, Ranks
from ..inside.techniques.processes import Processes
from ..records.plan import Plan
from ..records.ranks import Findings
from .ranks import Rank
from .shares import shares

_MEMORIES = 2  # pieces that ranks share: for each order of collectives one
_VISIBLE = "CUDA_VISIBLE_DEVICES"


@dataclass(frozen=True)
class Meeting:
    """Where ranks find each other, as in ``inside.job.Ranks``."""

    store: str
    memory: tuple[int, ...] = ()


@dataclass(frozen=True)
class Wish:
    """``backend`` "" is the best for where the training is."""

    count: int
    backend: str = ""
    sync_batch_norm: bool = False


def wish_of(plan: Plan) -> Wish | None:
    """What the plan says of processes; None where it trains in one."""
    settings = plan.techniques.get(Processes.name)
    if settings is None:
        return None
    return Wish(
        int(settings["count"]),
        str(settings.get("backend", "")),
        bool(settings.get("sync_batch_norm", False)),
    )


@contextmanager
def meeting(folder: str | None = None) -> Iterator[Meeting]:
    """For one launch. ``folder``: one that all ranks see; without, one for temporary files.

    The memory belongs to nobody once the last rank has ended.
    """
    with tempfile.TemporaryDirectory(prefix="hasten-", dir=folder) as own:
        has_memory = hasattr(os, "memfd_create")
        memory = tuple(os.memfd_create("hasten") for _ in range(_MEMORIES)) if has_memory else ()
        try:
            yield Meeting(f"file://{own}/store", memory)
        finally:
            for descriptor in memory:
                os.close(descriptor)


def members(
    job: Job, wish: Wish, place: Meeting, findings: Findings | None, environment: Mapping[str, str]
) -> list[Rank]:
    """The ranks for ``job``. ``findings``: of a rehearsal; None in one.

    Raises UsageError where there are fewer CPUs than ranks, Refusal where there are fewer GPUs.
    """
    on_gpu = findings is not None and findings.device == "cuda"
    gpus = _gpus(job, environment) if on_gpu else []
    if on_gpu and len(gpus) < wish.count:
        raise Refusal(f"{wish.count} ranks train on as many GPUs, and there are {len(gpus)}: choose fewer")
    made = []
    for number, share in enumerate(shares(job.machine, wish.count)):
        ranks = Ranks(
            rank=number,
            world_size=wish.count,
            local_rank=number,
            store=place.store,
            backend=wish.backend or ("nccl" if on_gpu else "shm"),
            memory=place.memory,
            cores=share.cpus,
            sync_batch_norm=wish.sync_batch_norm,
            findings=None if job.rehearsal else findings,
        )
        variables = {**environment, **share.variables(environment)}
        if job.seed is not None:
            variables["PYTHONHASHSEED"] = str(job.seed % 2**32)
        if on_gpu:
            variables[_VISIBLE] = gpus[number]
        made.append(Rank(replace(job, ranks=ranks, machine=share.part_of(job.machine)), variables))
    return made


def _gpus(job: Job, environment: Mapping[str, str]) -> list[str]:
    """Those that the user lets us see, or all."""
    chosen = environment.get(_VISIBLE)
    if chosen is not None:
        return [name.strip() for name in chosen.split(",") if name.strip()]
    return [str(number) for number in range(len(job.machine.accelerators))]
