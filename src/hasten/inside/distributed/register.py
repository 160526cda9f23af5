"""Makes our backends known to torch.distributed by their names."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any

import torch.distributed as dist

from .backends.ccl import Ccl
from .backends.engine import Engine
from .backends.mpi import Mpi
from .backends.shm import Shm
from .group import CollectiveGroup
from .pairs import Pairs

ENGINES: dict[str, Callable[[Any, int, int, timedelta], Engine]] = {"shm": Shm, "mpi4py": Mpi, "ccl": Ccl}
"""By the name that torch.distributed knows it by: "mpi" is torch's own, in builds of torch with MPI."""


def register() -> None:
    """``dist.init_process_group(NAME)`` and ``dist.new_group(backend=NAME)`` work from now on. A name that
    somebody registered before (Intel's own bindings, "ccl") stays theirs.
    """
    for name in ENGINES:
        if not hasattr(dist.Backend, name.upper()):
            dist.Backend.register_backend(name, partial(_group, name), devices=["cpu"])


def _group(name: str, store: Any, rank: int, size: int, timeout: timedelta) -> CollectiveGroup:
    """What torch calls for a new group."""
    engine = ENGINES[name](store, rank, size, timeout)
    return CollectiveGroup(name, engine, rank, size, Pairs(store, rank, timeout))
