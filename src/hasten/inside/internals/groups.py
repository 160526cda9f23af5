"""The C++ side of torch.distributed: the classes that a custom backend derives from."""

from __future__ import annotations

from types import ModuleType

import torch.distributed as dist
from torch._C import _distributed_c10d
from torch._C._distributed_c10d import PrefixStore as PrefixStore
from torch._C._distributed_c10d import TCPStore as TCPStore
from torch.distributed.distributed_c10d import Store as Store
from torch.futures import Future

c10d: ModuleType = _distributed_c10d  # its stubs are incomplete


def work_from(future: Future[object]) -> dist.Work:
    """A ``Work`` that is done when ``future`` is."""
    work: dist.Work = c10d._create_work_from_future(future)
    return work


def meeting_store() -> Store | None:
    """Where the ranks of the default group have met; None where this torch does not tell."""
    found = getattr(dist.distributed_c10d, "_get_default_store", None)
    return found() if found is not None else None


def name_given(group: dist.ProcessGroup, otherwise: str) -> str:
    """torch's name for a group; ``otherwise`` if it has none."""
    return str(dist.distributed_c10d._world.pg_names.get(group, otherwise))
