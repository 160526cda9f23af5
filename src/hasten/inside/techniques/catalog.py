"""The techniques, in the order in which reports list them."""

from __future__ import annotations

from .base import Technique
from .bf16 import Bf16
from .channels_last import ChannelsLast
from .checkpointing import Checkpointing
from .compile import Compile
from .cudnn_benchmark import CudnnBenchmark
from .dataset_in_ram import DatasetInRam
from .fp8 import Fp8
from .fp16 import Fp16
from .fused_optimizer import FusedOptimizer
from .malloc import Malloc
from .matmul_precision import MatmulPrecision
from .optimizer_in_backward import OptimizerInBackward
from .tf32 import Tf32
from .threads import Threads
from .zero_grad_to_none import ZeroGradToNone

_ALL: tuple[type[Technique], ...] = (
    DatasetInRam,
    Bf16,
    Fp16,
    Fp8,
    Tf32,
    MatmulPrecision,
    Compile,
    ChannelsLast,
    CudnnBenchmark,
    FusedOptimizer,
    ZeroGradToNone,
    OptimizerInBackward,
    Checkpointing,
    Malloc,
    Threads,
)

CATALOG: dict[str, type[Technique]] = {technique.name: technique for technique in _ALL}
