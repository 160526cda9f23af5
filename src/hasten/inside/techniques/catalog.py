"""The techniques, in the order in which reports list them."""

from __future__ import annotations

from ...records.plan import Plan
from .base import Technique
from .batch_size import BatchSize
from .bf16 import Bf16
from .channels_last import ChannelsLast
from .dataset_in_ram import DatasetInRam
from .debugging_off import DebuggingOff
from .drop_bias import DropBias
from .fused_optimizer import FusedOptimizer
from .malloc import Malloc
from .prune import Prune
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
        BatchSize,
        Prune,
    )
}


def starts_after(plan: Plan) -> int:
    """Steps until all of the plan is in force."""
    return max(
        (CATALOG[name].starts_after(settings) for name, settings in plan.techniques.items()), default=0
    )
