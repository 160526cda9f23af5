"""torch.distributed behind its Python: the classes that a backend of one's own derives from."""

from __future__ import annotations

from typing import Any

import torch.distributed as dist
from torch._C import _distributed_c10d

c10d: Any = _distributed_c10d


def work_from(future: Any) -> Any:
    """A ``Work`` that is done when ``future`` is."""
    return c10d._create_work_from_future(future)


def name_given(group: Any, otherwise: str) -> str:
    """By which torch knows a group; ``otherwise`` where it knows none."""
    worlds: Any = dist.distributed_c10d._world
    return str(worlds.pg_names.get(group, otherwise))
