"""The techniques, in the order in which reports list them."""

from __future__ import annotations

from ...records.plan import Plan
from .affinity import Affinity
from .async_save import AsyncSave
from .base import Technique
from .batch_size import BatchSize
from .batched_fetch import BatchedFetch
from .batched_to_tensor import BatchedToTensor
from .bf16 import Bf16
from .channels_last import ChannelsLast
from .checkpointing import Checkpointing
from .compile import Compile
from .cudnn_benchmark import CudnnBenchmark
from .dataset_in_ram import DatasetInRam
from .debugging_off import DebuggingOff
from .denormals import Denormals
from .device_prefetch import DevicePrefetch
from .drop_bias import DropBias
from .evaluation_bf16 import EvaluationBf16
from .evaluation_in_ram import EvaluationInRam
from .fp8 import Fp8
from .fp16 import Fp16
from .fused_optimizer import FusedOptimizer
from .gc_control import GcControl
from .graph_free_evaluation import GraphFreeEvaluation
from .huge_pages import HugePages
from .intel_extension import IntelExtension
from .interop_threads import InteropThreads
from .lazy_dynamo import LazyDynamo
from .length_grouping import LengthGrouping
from .loader_workers import LoaderWorkers
from .malloc import Malloc
from .matmul_precision import MatmulPrecision
from .merge_groups import MergeGroups
from .native_resize import NativeResize
from .openmp_runtime import OpenmpRuntime
from .optimizer_in_backward import OptimizerInBackward
from .pad_trim import PadTrim
from .persistent_workers import PersistentWorkers
from .pin_memory import PinMemory
from .processes import Processes
from .prune import Prune
from .sample_store import SampleStore
from .tf32 import Tf32
from .threads import Threads
from .uint8_transfer import Uint8Transfer
from .zero_grad_to_none import ZeroGradToNone

_ALL: tuple[type[Technique], ...] = (
    DatasetInRam,
    BatchedFetch,
    SampleStore,
    BatchedToTensor,
    NativeResize,
    LoaderWorkers,
    LengthGrouping,
    PersistentWorkers,
    EvaluationInRam,
    PinMemory,
    Uint8Transfer,
    DevicePrefetch,
    DebuggingOff,
    PadTrim,
    Bf16,
    Fp16,
    Fp8,
    Tf32,
    MatmulPrecision,
    Compile,
    ChannelsLast,
    DropBias,
    CudnnBenchmark,
    GraphFreeEvaluation,
    EvaluationBf16,
    FusedOptimizer,
    MergeGroups,
    ZeroGradToNone,
    OptimizerInBackward,
    Checkpointing,
    AsyncSave,
    Malloc,
    Threads,
    OpenmpRuntime,
    Affinity,
    HugePages,
    InteropThreads,
    Denormals,
    GcControl,
    LazyDynamo,
    IntelExtension,
    Processes,
    BatchSize,
    Prune,
)

CATALOG: dict[str, type[Technique]] = {technique.name: technique for technique in _ALL}


def changing(plan: Plan) -> Plan:
    """The part of a plan that changes the training itself."""
    return plan.only({name for name, how in plan.techniques.items() if CATALOG[name].changes_training(how)})


def starts_after(plan: Plan) -> int:
    """Steps until all of the plan is in force."""
    return max(
        (CATALOG[name].starts_after(settings) for name, settings in plan.techniques.items()), default=0
    )
