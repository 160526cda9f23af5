"""Makes our backends known to torch.distributed by their names."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import torch.distributed as dist

from .backends.engine import Engine
from .group import CollectiveGroup

Start = Callable[[Any, int, int, timedelta], Engine]
"""(store, rank, size, timeout) -> the engine of this rank"""


def _shm(store: Any, rank: int, size: int, timeout: timedelta) -> Engine:
    from .backends.shm import Shm

    return Shm(store, rank, size, timeout)


def _mpi(store: Any, rank: int, size: int, timeout: timedelta) -> Engine:
    from .backends.mpi import Mpi

    return Mpi(store, rank, size, timeout)


def _ccl(store: Any, rank: int, size: int, timeout: timedelta) -> Engine:
    from .backends.ccl import Ccl

    return Ccl(store, rank, size, timeout)


STARTS: dict[str, Start] = {"shm": _shm, "mpi4py": _mpi, "ccl": _ccl}
"""By the name that torch.distributed knows it by: "mpi" is torch's own, in builds of torch with MPI."""


def register() -> None:
    """``dist.init_process_group(NAME)`` and ``dist.new_group(backend=NAME)`` work from now on."""
    for name in STARTS:
        if not hasattr(dist.Backend, name.upper()):
            dist.Backend.register_backend(name, _Making(name), devices=["cpu"])


class _Making:
    """What torch calls for a new group."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __call__(self, store: Any, rank: int, size: int, timeout: timedelta) -> CollectiveGroup:
        return CollectiveGroup(self._name, STARTS[self._name](store, rank, size, timeout), rank, size)
