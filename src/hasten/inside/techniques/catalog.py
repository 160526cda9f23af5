"""The techniques, in the order in which reports list them."""

from __future__ import annotations

from .base import Technique
from .bf16 import Bf16
from .channels_last import ChannelsLast
from .compile import Compile
from .dataset_in_ram import DatasetInRam
from .fused_optimizer import FusedOptimizer
from .malloc import Malloc
from .threads import Threads

CATALOG: dict[str, type[Technique]] = {
    technique.name: technique
    for technique in (DatasetInRam, Bf16, Compile, ChannelsLast, FusedOptimizer, Malloc, Threads)
}
