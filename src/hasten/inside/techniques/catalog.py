"""The techniques, in the order in which reports list them."""

from __future__ import annotations

from .base import Technique
from .batched_fetch import BatchedFetch
from .bf16 import Bf16
from .channels_last import ChannelsLast
from .dataset_in_ram import DatasetInRam
from .device_prefetch import DevicePrefetch
from .fused_optimizer import FusedOptimizer
from .loader_workers import LoaderWorkers
from .malloc import Malloc
from .pin_memory import PinMemory
from .threads import Threads

CATALOG: dict[str, type[Technique]] = {
    technique.name: technique
    for technique in (
        DatasetInRam,
        BatchedFetch,
        LoaderWorkers,
        PinMemory,
        DevicePrefetch,
        Bf16,
        ChannelsLast,
        FusedOptimizer,
        Malloc,
        Threads,
    )
}
