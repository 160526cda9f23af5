"""The techniques, in the order in which reports list them."""

from __future__ import annotations

from .base import Technique
from .bf16 import Bf16
from .channels_last import ChannelsLast
from .dataset_in_ram import DatasetInRam
from .debugging_off import DebuggingOff
from .drop_bias import DropBias
from .fused_optimizer import FusedOptimizer
from .malloc import Malloc
from .threads import Threads

CATALOG: dict[str, type[Technique]] = {
    technique.name: technique
    for technique in (
        DatasetInRam,
        DebuggingOff,
        Bf16,
        ChannelsLast,
        DropBias,
        FusedOptimizer,
        Malloc,
        Threads,
    )
}
