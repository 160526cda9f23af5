"""The undocumented parts of torch that hasten uses, and what for. Checked when a script imports torch: if
something is missing without which no training can be followed, the error names it.

All present in torch 2.9 to 2.15.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Part:
    """``where``: a torch module, or a class in one. ``made``: it is an attribute of instances, set by the
    ``__init__`` of ``where``. ``needed``: no training can be followed without it; otherwise only what
    ``purpose`` says fails.
    """

    where: str
    name: str
    purpose: str
    made: bool = False
    needed: bool = True


_ITERATOR = "torch.utils.data.dataloader:_BaseDataLoaderIter"
_OF_WORKERS = "torch.utils.data.dataloader:_MultiProcessingDataLoaderIter"
_WORKERS = "torch.utils.data._utils.worker"
_MODULE = "torch.nn:Module"
PARTS = (
    # ---- modules
    Part(_MODULE, "_call_impl", "calls a module past what stands in for its call"),
    Part(
        _MODULE, "_compiled_call_impl", "what stands in for a module's call, unseen by copies and checkpoints"
    ),
    Part(_MODULE, "_parameters", "a layer's own parameters", made=True),
    Part(_MODULE, "_buffers", "a layer's own buffers", made=True),
    Part(_MODULE, "_modules", "whether a module is a layer", made=True),
    Part(_MODULE, "_forward_hooks", "whether the script has hooks on a module", made=True),
    Part(_MODULE, "_forward_pre_hooks", "whether the script has hooks on a module", made=True),
    Part(_MODULE, "_backward_hooks", "whether the script has hooks on a module", made=True),
    Part(
        "torch:Tensor",
        "_backward_hooks",
        "whether the script has a hook on a parameter's gradient",
        needed=False,
    ),
    Part("torch:Tensor", "_is_view", "which outputs can be written to in place", needed=False),
    Part("torch:Tensor", "_use_count", "which gradients something else holds", needed=False),
    Part(_MODULE, "_backward_pre_hooks", "whether the script has hooks on a module", made=True),
    Part("torch.nn.modules.module", "_has_any_global_hook", "whether the script has hooks on all modules"),
    Part("torch.nn.utils.stateless", "_functional_call", "which model is trained by torch.func"),
    Part(_MODULE, "_save_to_state_dict", "checkpoints of a pruned model in full size", needed=False),
    Part(_MODULE, "_load_from_state_dict", "checkpoints of a pruned model in full size", needed=False),
    Part("torch.nn.modules.batchnorm", "_BatchNorm", "to recognise batch norm, of any number of dimensions"),
    Part("torch.nn.modules.batchnorm", "_NormBase", "to recognise layers with running statistics"),
    Part("torch.nn.modules.dropout", "_DropoutNd", "to recognise dropout"),
    Part("torch.nn.modules.conv", "_ConvNd", "pruning: what has channels", needed=False),
    Part(
        "torch.distributed.distributed_c10d",
        "_get_default_store",
        "checkpoints: whether ranks go on from the same step",
        needed=False,
    ),
    # ---- loaders
    Part("torch.utils.data.dataloader", "_BaseDataLoaderIter", "to see batches as they come"),
    Part("torch.utils.data.dataloader", "_SingleProcessDataLoaderIter", "to fetch batches in another way"),
    Part("torch.utils.data.dataloader", "_MultiProcessingDataLoaderIter", "to fetch batches in another way"),
    Part("torch.utils.data.dataloader", "_DatasetKind", "to make a batch in another way"),
    Part(
        "torch.utils.data:DataLoader",
        "check_worker_number_rationality",
        "what a data set is when its loader is made",
        needed=False,
    ),
    Part(_ITERATOR, "_next_index", "which samples a batch is made of"),
    Part(_ITERATOR, "_reset", "when an epoch begins"),
    Part(
        "torch.utils.data.dataloader:_SingleProcessDataLoaderIter",
        "_next_data",
        "to fetch batches in another way",
    ),
    Part(
        "torch.utils.data.dataloader:_MultiProcessingDataLoaderIter",
        "_next_data",
        "to fetch batches in another way",
    ),
    Part(_ITERATOR, "_dataset", "what is read", made=True),
    Part(_ITERATOR, "_dataset_kind", "whether it is read by indices", made=True),
    Part(_ITERATOR, "_auto_collation", "whether torch puts samples together", made=True),
    Part(_ITERATOR, "_collate_fn", "how samples are put together", made=True),
    Part(_ITERATOR, "_index_sampler", "which samples come next", made=True),
    Part(_ITERATOR, "_sampler_iter", "which epoch it is", made=True),
    Part(_ITERATOR, "_num_workers", "who fetches", made=True),
    Part(_ITERATOR, "_pin_memory", "whether memory is pinned", made=True),
    Part(_ITERATOR, "_num_yielded", "how many batches came in an epoch", made=True),
    Part(_ITERATOR, "_base_seed", "random numbers of worker processes in each rank", made=True),
    Part(_ITERATOR, "_persistent_workers", "whether workers stay for the next epoch", made=True),
    Part(_ITERATOR, "_shared_seed", "persistent_workers: seeds of an epoch", made=True, needed=False),
    Part(_OF_WORKERS, "_index_queues", "persistent_workers: messages to workers", made=True, needed=False),
    Part(_ITERATOR, "_drop_last", "loader_workers: to make a batch here", made=True, needed=False),
    Part(_OF_WORKERS, "_prefetch_factor", "loader_workers: when samplers are asked", made=True, needed=False),
    Part(_OF_WORKERS, "_try_put_index", "loader_workers: when samplers are asked", needed=False),
    Part(
        "torch.multiprocessing.reductions",
        "rebuild_tensor",
        "loader_workers: tensors that the script may keep",
        needed=False,
    ),
    Part(_OF_WORKERS, "_shutdown_workers", "persistent_workers: to end workers that stay", needed=False),
    Part(_OF_WORKERS, "_workers", "persistent_workers: whether workers live", made=True, needed=False),
    Part(
        _WORKERS,
        "_worker_loop",
        "persistent_workers, sample_store, batched_to_tensor: what a worker does",
        needed=False,
    ),
    Part(_WORKERS, "_worker_info", "what a worker gets", needed=False),
    Part(_WORKERS, "_ResumeIteration", "persistent_workers: when an epoch begins", needed=False),
    Part(_WORKERS, "_generate_state", "persistent_workers: numpy's seed", needed=False),
    Part("torch.utils.data", "_utils", "batched_fetch: how default_collate makes a batch", needed=False),
    Part("torch:Tensor", "_make_wrapper_subclass", "uint8_transfer: batches of bytes", needed=False),
    Part("torch._C", "DisableTorchFunctionSubclass", "uint8_transfer: batches of bytes", needed=False),
    Part("torch:UntypedStorage", "_new_shared", "batched_to_tensor: batches of workers", needed=False),
    # ---- others
    Part("torch.utils", "_pytree", "tensors in nested structures"),
    Part("torch.autograd", "_profiler_enabled", "whether a profiler was left on"),
    Part("torch.autograd.profiler", "_enable_profiler", "whether a profiler was left on"),
    Part("torch._C", "_get_privateuse1_backend_name", "random numbers of devices that an extension adds"),
    Part(
        "torch._C._autograd", "_toggle_collection_dynamic", "debugging_off: the profiler pauses", needed=False
    ),
    Part("torch._C", "_functorch", "the guard and checkpoints: models under vmap", needed=False),
    Part("torch._C._functorch", "maybe_current_level", "the same", needed=False),
    Part("torch._C", "_len_torch_dispatch_stack", "fast_pooling: operations that are counted", needed=False),
    Part("torch.autograd.forward_ad", "_current_level", "fast_pooling: derivatives forward", needed=False),
    Part("torch.jit", "_builtins", "torch.jit.script: functions that are watched", needed=False),
    Part("torch.jit._builtins", "_find_builtin", "the same", needed=False),
    Part("torch.jit._builtins", "_register_builtin", "the same", needed=False),
    Part("torch", "_foreach_add_", "ranks: gradients of all parameters at once", needed=False),
    Part("torch", "_foreach_copy_", "ranks: gradients of all parameters at once", needed=False),
    Part("torch", "_foreach_mul_", "fp16: scales gradients", needed=False),
    Part("torch", "_amp_foreach_non_finite_check_and_unscale_", "fp16: scales gradients", needed=False),
    Part("torch._C", "_storage_Use_Count", "channels_last: weights that lie in shared memory", needed=False),
    Part("torch:UntypedStorage", "_cdata", "the same", needed=False),
    Part("torch", "_disable_dynamo", "ranks: torch.compile leaves their group alone", needed=False),
    # ---- the compiler, imported only if needed
    Part("torch._C._dynamo.eval_frame", "set_code_exec_strategy", "compile: what it leaves", needed=False),
    Part("torch._C._dynamo.eval_frame", "_FrameAction", "the same", needed=False),
    Part("torch._C._dynamo.eval_frame", "_FrameExecStrategy", "the same", needed=False),
    Part("torch._dynamo.utils", "counters", "compile: what was compiled", needed=False),
    Part("torch._dynamo.utils", "cumulative_time_spent_ns", "compile: what compiling took", needed=False),
    Part("torch._dynamo.utils", "is_compile_supported", "lazy_dynamo: torchvision imports it", needed=False),
    Part("torch._dynamo.exc", "TorchDynamoException", "compile: what cannot be compiled", needed=False),
    Part("torch._inductor", "list_mode_options", "compile: its modes", needed=False),
    Part(
        "torch._inductor.runtime.cache_dir_utils", "default_cache_dir", "compile: what is kept", needed=False
    ),
    Part("torch.utils._triton", "has_triton", "compile: on a GPU", needed=False),
    Part("torch.utils._python_dispatch", "TorchDispatchMode", "ranks: their rehearsal", needed=False),
    Part("torch.serialization", "_open_zipfile_writer", "async_save: what a file consists of", needed=False),
    Part(
        "torch.optim.optimizer", "_get_scalar_dtype", "fused_optimizer: how steps are counted", needed=False
    ),
)


def missing(parts: tuple[Part, ...] = PARTS) -> list[Part]:
    """The ones that this torch lacks."""
    return [part for part in parts if not _is_there(part)]


class TorchLacks(Exception):
    """This torch lacks something needed to follow a training; the message says what, and what to do."""


def check(version: str, parts: tuple[Part, ...] = PARTS) -> None:
    """Check that torch has all needed parts. Raises TorchLacks if it does not."""
    gone = missing(tuple(part for part in parts if part.needed))
    if gone:
        raise TorchLacks(_words(version, gone))


def _words(version: str, gone: list[Part]) -> str:
    names = ", ".join(f"{part.where.replace(':', '.')}.{part.name}" for part in gone)
    return (
        f"torch {version} has no {names}, by which hasten follows a training. Take a torch that "
        "this hasten was tested with (2.9 to 2.15), or a newer hasten"
    )


def _is_there(part: Part) -> bool:
    place, _, kind = part.where.partition(":")
    try:
        owner: Any = importlib.import_module(place)
    except ImportError:
        owner = None  # a C module: an attribute of an imported one
        for name in place.split("."):
            owner = importlib.import_module(name) if owner is None else getattr(owner, name, None)
    owner = getattr(owner, kind, None) if kind else owner
    return part.name in set(_made_by(owner)) if part.made else hasattr(owner, part.name)


def _made_by(kind: Any) -> Iterator[str]:
    """Names that its ``__init__`` sets or that it declares."""
    code = getattr(getattr(kind, "__init__", None), "__code__", None)
    yield from getattr(code, "co_names", ())
    yield from getattr(code, "co_consts", ())  # set by name, bypassing __setattr__
    yield from getattr(kind, "__annotations__", ())
