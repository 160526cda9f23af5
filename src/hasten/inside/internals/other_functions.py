"""Other torch functions: over lists of tensors, of the profiler, of storages."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    import torch
    from torch import Tensor
    from torch.optim import Optimizer

Structure = TypeVar("Structure")
ZIP_WRITER = "_open_zipfile_writer"  # of torch.serialization: what torch.save writes a file with
_SCRIPTED: list[object] = []  # torch.jit knows them by their id, so they must live on
PROFILER_ENABLED = "_enable_profiler"  # of torch.autograd.profiler: the profiler starts


def is_transformed(torch: ModuleType) -> bool:
    """Whether a torch.func transform, such as vmap, runs what is computed now."""
    functorch = getattr(torch._C, "_functorch", None)
    return functorch is not None and functorch.maybe_current_level() is not None


def is_observed(torch: ModuleType) -> bool:
    """Whether a dispatch mode, such as one that counts operations, or forward-mode differentiation must see
    what is computed now.
    """
    modes = getattr(torch._C, "_len_torch_dispatch_stack", None)
    level = getattr(torch.autograd.forward_ad, "_current_level", -1)
    return bool(modes is not None and modes()) or level >= 0


def is_watched(torch: ModuleType) -> bool:
    """Whether a trace, a transform or a mode must see what torch computes now, and nothing else."""
    return torch.jit.is_tracing() or is_transformed(torch) or is_observed(torch)


def script_as(torch: ModuleType, made: object, original: object) -> None:
    """Let torch.jit compile calls of ``made`` as those of ``original``, if it knows this as its own."""
    known: Any = torch.jit._builtins
    operator = known._find_builtin(original)
    if operator is not None and isinstance(made, FunctionType) and known._find_builtin(made) is None:
        known._register_builtin(made, operator)
        _SCRIPTED.append(made)


def add_each(torch: ModuleType, onto: Sequence[Tensor], others: Sequence[Tensor]) -> None:
    """Add one list of tensors to another, in place."""
    torch._foreach_add_(onto, others)


def copy_each(torch: ModuleType, into: Sequence[Tensor], others: Sequence[Tensor]) -> None:
    torch._foreach_copy_(into, others)


def multiply_each(torch: ModuleType, tensors: Sequence[Tensor], factor: float) -> None:
    torch._foreach_mul_(tensors, factor)


def unscale_each(torch: ModuleType, gradients: Sequence[Tensor], found: Tensor, inverse: Tensor) -> None:
    """Multiply by ``inverse``; ``found`` becomes 1 if any is not finite. Like ``GradScaler``."""
    torch._amp_foreach_non_finite_check_and_unscale_(gradients, found, inverse)


def stored_values(sparse: Tensor) -> Tensor:
    """The values of a sparse tensor, not copied."""
    return sparse._values()


def is_view(tensor: Tensor) -> bool:
    return bool(tensor._is_view())


def other_users(torch: ModuleType, tensor: Tensor) -> int:
    """How many tensors besides it lie in its memory, or in a part of it; arrays that were made of one count.
    0 if this torch cannot tell.
    """
    count = getattr(torch._C, "_storage_Use_Count", None)
    if count is None:
        return 0
    another = torch.empty(0)
    alone = another.untyped_storage()
    own = tensor.untyped_storage()
    return int(count(own._cdata) - count(alone._cdata))


def held_gradient(parameter: Tensor) -> tuple[int, int]:
    """How many references Python and torch have to a parameter's gradient. Among them are some that are there
    for every gradient, and for this call, and whose number is not the same in all releases.
    """
    gradient: Any = parameter.grad
    return sys.getrefcount(gradient), gradient._use_count()


def map_leaves(torch: ModuleType, change: Callable[[Any], object], value: Structure) -> Structure:
    """``value`` with each leaf changed, in lists, tuples, dicts and registered containers."""
    changed: Structure = torch.utils._pytree.tree_map(change, value)
    return changed


def leaves(torch: ModuleType, value: object) -> list[Any]:
    found: list[Any] = torch.utils._pytree.tree_leaves(value)
    return found


def serialization(torch: ModuleType) -> ModuleType:
    """The module in which ``ZIP_WRITER`` is."""
    found: ModuleType = torch.serialization
    return found


def profiling(torch: ModuleType) -> bool:
    return bool(torch.autograd._profiler_enabled())


def collect(torch: ModuleType, wanted: bool) -> None:
    """Pause or resume the running profiler."""
    kinds = torch._C._profiler.ProfilerActivity
    torch._C._autograd._toggle_collection_dynamic(wanted, {kinds.CPU, kinds.CUDA})


def in_bad_fork(module: ModuleType) -> bool:
    """Whether a device's ``module`` (for example torch.cuda) cannot be used in this fork."""
    asked = getattr(module, "_is_in_bad_fork", None)
    return asked is not None and bool(asked())


def name_of_private_device(torch: ModuleType) -> str:
    """The name of the kind of device that an extension of torch adds."""
    return str(torch._C._get_privateuse1_backend_name())


def step_dtype() -> torch.dtype:
    """The dtype in which an optimizer that is not fused counts its steps."""
    found: torch.dtype = importlib.import_module("torch.optim.optimizer")._get_scalar_dtype()
    return found


def mark_scaling_supported(optimizer: Optimizer) -> None:
    """Then ``GradScaler`` passes it its scale instead of unscaling first, as for a fused optimizer."""
    vars(optimizer)["_step_supports_amp_scaling"] = True


def storage_kinds(torch: ModuleType) -> None:
    """Make torch build its cached maps between dtypes and storage classes now."""
    for name in ("_dtype_to_storage_type_map", "_storage_type_to_dtype_map"):
        with suppress(AttributeError):
            getattr(torch.storage, name)()
