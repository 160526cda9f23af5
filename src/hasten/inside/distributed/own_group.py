"""Process groups that a script creates itself: provides the backends that it names."""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import timedelta

import torch
import torch.distributed as dist

from ..job import OwnGroup
from ..seams import Call, Seams
from .register import ENGINES, register

_OURS = {"mpi": "mpi4py", **{name: name for name in ENGINES}}


def find_backends(seams: Seams, own: OwnGroup) -> None:
    """From now on ``init_process_group`` and ``new_group`` also accept the names "mpi", "ccl" and "shm".
    Backend, port and timeout of ``own``, if they are set, replace those that the script names.
    """
    instead, patience = own.backend, _Patience(own.timeout_seconds)

    def beginning(original: Call) -> Call:
        def init_process_group(backend: object = None, *others: object, **options: object) -> object:
            asked = str(backend).lower()
            if asked == "mpi" and not dist.is_mpi_available():  # MPI numbers the ranks itself
                options.pop("rank", None)
                options.pop("world_size", None)
            if own.port:
                os.environ["MASTER_PORT"] = str(own.port)
                others = (*(_at(own.port, method) for method in others[:1]), *others[1:])
                if "init_method" in options:
                    options["init_method"] = _at(own.port, options["init_method"])
            patience.said = len(others) > 1 or options.get("timeout") is not None  # the second is a timeout
            if not patience.said:
                options["timeout"] = patience.for_others()
            return original(_found(backend, instead), *others, **options)

        return init_process_group

    def adding(original: Call) -> Call:
        def new_group(
            ranks: object = None, timeout: object = None, backend: object = None, *more: object, **kw: object
        ) -> object:
            if timeout is None and not patience.said:
                timeout = patience.for_others()
            return original(ranks, timeout, backend and _found(backend, instead), *more, **kw)

        return new_group

    for owner in (dist, dist.distributed_c10d):
        seams.replace(owner, "init_process_group", beginning)
        seams.replace(owner, "new_group", adding)


@dataclass
class _Patience:
    """How long ranks wait if the script does not set it. ``said``: it did, for its first group."""

    seconds: float
    said: bool = False

    def for_others(self) -> timedelta | None:
        """The timeout for a group; None for torch's default."""
        return timedelta(seconds=self.seconds) if self.seconds else None


def _at(port: int, method: object) -> object:
    """``method`` with that port, if it names one: "tcp://HOST:PORT"."""
    if isinstance(method, str) and method.startswith("tcp://"):
        return f"{method.rpartition(':')[0]}:{port}"
    return method


def _found(backend: object, instead: str) -> object:
    """What to pass to torch instead of ``backend``; it is registered by then."""
    name = str(backend or "").lower()
    for_gpus = torch.cuda.is_available() and ("nccl" in name or not name)
    if instead and not for_gpus:
        name = instead
    elif name not in _OURS or (name == "mpi" and dist.is_mpi_available()):
        return backend
    register()
    return _OURS.get(name, name)
