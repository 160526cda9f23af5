"""The C++ side of torch.distributed: the classes that a custom backend derives from."""

from __future__ import annotations

from typing import Any

import torch.distributed as dist
from torch._C import _distributed_c10d

c10d: Any = _distributed_c10d


def work_from(future: Any) -> Any:
    """A ``Work`` that is done when ``future`` is."""
    return c10d._create_work_from_future(future)


def name_given(group: Any, otherwise: str) -> str:
    """torch's name for a group; ``otherwise`` where it has none."""
    worlds: Any = dist.distributed_c10d._world
    return str(worlds.pg_names.get(group, otherwise))
