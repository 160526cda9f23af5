"""The techniques, in the order in which reports list them."""

from __future__ import annotations

from .affinity import Affinity
from .base import Technique
from .batched_fetch import BatchedFetch
from .bf16 import Bf16
from .channels_last import ChannelsLast
from .dataset_in_ram import DatasetInRam
from .debugging_off import DebuggingOff
from .denormals import Denormals
from .device_prefetch import DevicePrefetch
from .fused_optimizer import FusedOptimizer
from .huge_pages import HugePages
from .intel_extension import IntelExtension
from .interop_threads import InteropThreads
from .loader_workers import LoaderWorkers
from .malloc import Malloc
from .onednn_fpmath import OnednnFpmath
from .openmp_runtime import OpenmpRuntime
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
        DebuggingOff,
        Bf16,
        ChannelsLast,
        FusedOptimizer,
        OnednnFpmath,
        Malloc,
        Threads,
        OpenmpRuntime,
        Affinity,
        HugePages,
        InteropThreads,
        Denormals,
        IntelExtension,
    )
}
