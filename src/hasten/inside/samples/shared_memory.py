"""Whether a data set reaches memory that processes share: what a sample writes there when it is drawn in a
process of ours, the training would find.
"""

from __future__ import annotations

import sys
from typing import Any

from .visible_state import name_of_first

_SHARED = {  # module -> base of its classes
    "multiprocessing.sharedctypes": "SynchronizedBase",
    "multiprocessing.managers": "BaseProxy",
    "multiprocessing.shared_memory": "SharedMemory",
}


def why_not_apart(dataset: object) -> str:
    """Why its samples must not be drawn in a process of ours; "" if they may be."""
    found = name_of_first(dataset, is_shared)
    return f"{found} is memory that processes share, which drawing samples apart may change" if found else ""


def is_shared(value: Any) -> bool:
    if hasattr(value, "element_size"):
        plain = value.device.type == "cpu" and str(value.layout) == "torch.strided"
        return plain and bool(value.is_shared())
    if hasattr(type(value), "_b_base_"):  # of C: multiprocessing's RawValue and RawArray note where it lies
        return hasattr(value, "_wrapper")
    kinds = (getattr(sys.modules[name], kind) for name, kind in _SHARED.items() if name in sys.modules)
    return isinstance(value, tuple(kinds))
