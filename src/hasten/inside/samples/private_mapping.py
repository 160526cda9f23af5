"""Maps an open file into memory, privately, and holds no descriptor of it.

``mmap.mmap`` keeps a descriptor open for as long as the mapping lives. Samples live as long as the training,
so a script with many data sets would run out of descriptors.
"""

from __future__ import annotations

import ctypes
from types import ModuleType
from typing import Any


def map_privately(torch: ModuleType, descriptor: int, size: int) -> memoryview:
    """The first ``size`` bytes of the file behind ``descriptor``, which may be closed afterwards. What is
    written to the view stays in this process. The memory is unmapped with the last view of it.

    Raises:
        RuntimeError: the file cannot be mapped, or is shorter than ``size``.
    """
    path = f"/proc/self/fd/{descriptor}"
    mapped = torch.from_file(path, shared=False, size=size, dtype=torch.uint8)
    layout: Any = type("Bytes", (ctypes.Array,), {"_type_": ctypes.c_ubyte, "_length_": size})
    memory = layout.from_address(mapped.data_ptr())
    memory.mapped = mapped  # lives as long as any view of ``memory``
    return memoryview(memory)
