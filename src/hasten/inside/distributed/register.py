"""Registers our backends with torch.distributed, by name."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from functools import cache, partial

import torch.distributed as dist

from ..internals.groups import Store
from ..seams import Call, Seams
from .backends.ccl import Ccl
from .backends.engine import Engine
from .backends.mpi import Mpi
from .backends.shm import Shm
from .group import CollectiveGroup
from .point_to_point import Pairs

ENGINES: dict[str, Callable[[Store, int, int, timedelta], Engine]] = {
    "shm": Shm,
    "mpi4py": Mpi,
    "ccl": Ccl,
}
"""By the name that torch.distributed knows it by: "mpi" is torch's own, in builds of torch with MPI."""


def register() -> None:
    """From now on ``dist.init_process_group(NAME)`` and ``dist.new_group(backend=NAME)`` work, and
    ``dist.monitored_barrier`` takes our groups. A name that is registered already (Intel's bindings register
    "ccl") is left alone.
    """
    _watch_barriers()
    for name in ENGINES:
        if not hasattr(dist.Backend, name.upper()):
            dist.Backend.register_backend(name, partial(_group, name), devices=["cpu"])


@cache
def _watch_barriers() -> None:
    for owner in (dist, dist.distributed_c10d):
        Seams().replace(owner, "monitored_barrier", _around_barrier)


def _around_barrier(original: Call) -> Call:
    def monitored_barrier(
        group: dist.ProcessGroup | None = None, *others: object, **options: object
    ) -> object:
        """torch supports it only for Gloo; our backends name missing ranks in any barrier."""
        ours = dist.is_initialized() and dist.get_backend(group) in ENGINES
        return dist.barrier(group) if ours else original(group, *others, **options)

    return monitored_barrier


def _group(name: str, store: Store, rank: int, size: int, timeout: timedelta) -> CollectiveGroup:
    """The function that torch calls for a new group."""
    engine = ENGINES[name](store, rank, size, timeout)
    return CollectiveGroup(name, engine, rank, size, Pairs(store, rank, timeout))
