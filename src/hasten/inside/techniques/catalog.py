"""The techniques, in the order in which reports list them."""

from __future__ import annotations

from .base import Technique
from .bf16 import Bf16
from .channels_last import ChannelsLast
from .compile import Compile
from .cudnn_benchmark import CudnnBenchmark
from .dataset_in_ram import DatasetInRam
from .fp16 import Fp16
from .fused_optimizer import FusedOptimizer
from .malloc import Malloc
from .matmul_precision import MatmulPrecision
from .tf32 import Tf32
from .threads import Threads

_ALL: tuple[type[Technique], ...] = (
    DatasetInRam,
    Bf16,
    Fp16,
    Tf32,
    MatmulPrecision,
    Compile,
    ChannelsLast,
    CudnnBenchmark,
    FusedOptimizer,
    Malloc,
    Threads,
)

CATALOG: dict[str, type[Technique]] = {technique.name: technique for technique in _ALL}
