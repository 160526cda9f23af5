"""Ranks of ours on this machine: one training's processes, each with its place, its cores, its GPU."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace

from ..inside.job import Job, Ranks
from ..inside.techniques.processes import Processes
from ..records.plan import Plan
from ..records.ranks import Findings
from .gpus import gpu_of, visible_gpus
from .ranks import Rank
from .shares import shares

_MEMORIES = ("now", "in-turn", "store")  # one for each order of collectives, and where ranks first meet


@dataclass(frozen=True)
class Meeting:
    """Where ranks find each other, as in ``inside.job.Ranks``; they inherit ``memory``."""

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
    """For one launch: memory without a name, of which nothing stays behind, however anybody ends.

    Where there is none, a file in a new folder below ``folder``, one that all ranks see.
    """
    with ExitStack() as stack:
        if not hasattr(os, "memfd_create"):
            own = stack.enter_context(tempfile.TemporaryDirectory(prefix="hasten-", dir=folder))
            yield Meeting(f"file://{own}/store")
            return
        made = [os.memfd_create(f"hasten-{name}") for name in _MEMORIES]
        for descriptor in made:
            stack.callback(os.close, descriptor)
        yield Meeting(f"file:///proc/self/fd/{made[-1]}", tuple(made))


def members(
    job: Job, wish: Wish, place: Meeting, findings: Findings | None, environment: Mapping[str, str]
) -> list[Rank]:
    """The ranks for ``job``. ``findings``: of a rehearsal; None in one.

    Raises UsageError where there are fewer CPUs or GPUs than ranks.
    """
    on_gpu = findings is not None and findings.device == "cuda"
    gpus = visible_gpus(job.machine, environment) if on_gpu else ()
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
        variables = {**environment, **share.variables(environment), **gpu_of(number, wish.count, gpus)}
        if job.seed is not None:
            variables["PYTHONHASHSEED"] = str(job.seed % 2**32)
        own = replace(job, ranks=ranks, machine=share.part_of(job.machine))
        made.append(Rank(own, variables, inherits=place.memory))
    return made
