"""Whether workers that train in turns fit into a GPU's memory together.

People choose a batch that fills the GPU. Two processes of such a training do not fit, and the check of
accuracy has up to eight: seen, a GPT of 124 million parameters took 41 of an H200's 140 GB, and the check ran
out of memory. But between two steps a training needs little more than its weights: what torch keeps for the
next step it can give back, and reserve again in a fraction of a second.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from ...records.observation import GpuMemory

_MARGIN = 1.1  # a plan may take more than the baseline that was seen
_CONTEXT = 2**29  # bytes that CUDA itself takes in each process: seen, 0.4 to 0.6 GB
_OUT_OF_MEMORY = "OutOfMemoryError", "CUDA error: out of memory", "CUBLAS_STATUS_ALLOC_FAILED"


class GpuRoom:
    """Unlimited until a training on a GPU was seen."""

    def __init__(self) -> None:
        self._fitting = math.inf  # workers at once, each with all that it reserved

    def know(self, memories: Iterable[GpuMemory]) -> None:
        """What a training took was seen."""
        for memory in memories:
            room = memory.available_bytes or memory.total_bytes
            self._fitting = min(self._fitting, room / (_MARGIN * memory.reserved_bytes + _CONTEXT))

    def failed(self, why: str) -> bool:
        """A worker's script failed: if for want of GPU memory, later ones leave each other all they can.
        Returns whether that may help.
        """
        before = self._fitting
        if out_of_gpu_memory(why):
            self._fitting = 1.0
        return self._fitting < before

    def is_short_for(self, workers: int) -> bool:
        return workers > max(1.0, self._fitting)


def out_of_gpu_memory(why: str) -> bool:
    """Whether a script failed because a GPU's memory was full. ``why``: the text of its error."""
    return any(words in why for words in _OUT_OF_MEMORY)
