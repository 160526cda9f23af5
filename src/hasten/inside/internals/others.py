"""Single functions of torch: over lists of tensors, of the profiler, of storages."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

PROFILER_ENABLED = "_enable_profiler"  # of torch.autograd.profiler: the profiler starts


def add_each(torch: Any, onto: Sequence[Any], others: Sequence[Any]) -> None:
    """In place, of two lists of tensors."""
    torch._foreach_add_(onto, others)


def copy_each(torch: Any, into: Sequence[Any], others: Sequence[Any]) -> None:
    torch._foreach_copy_(into, others)


def multiply_each(torch: Any, tensors: Sequence[Any], factor: Any) -> None:
    torch._foreach_mul_(tensors, factor)


def unscale_each(torch: Any, gradients: Sequence[Any], found: Any, inverse: Any) -> None:
    """Times ``inverse``; ``found`` becomes 1 where one of them is not finite. As ``GradScaler`` does it."""
    torch._amp_foreach_non_finite_check_and_unscale_(gradients, found, inverse)


def stored_values(sparse: Any) -> Any:
    """Of a sparse tensor, in its own memory."""
    return sparse._values()


def map_leaves(torch: Any, change: Any, value: Any) -> Any:
    """Each leaf of lists, tuples, dicts and what is registered as such."""
    return torch.utils._pytree.tree_map(change, value)


def leaves(torch: Any, value: Any) -> list[Any]:
    found: list[Any] = torch.utils._pytree.tree_leaves(value)
    return found


def profiling(torch: Any) -> bool:
    return bool(torch.autograd._profiler_enabled())


def collect(torch: Any, wanted: bool) -> None:
    """Let the profiler that runs collect or not."""
    kinds = torch._C._profiler.ProfilerActivity
    torch._C._autograd._toggle_collection_dynamic(wanted, {kinds.CPU, kinds.CUDA})


def in_bad_fork(module: Any) -> bool:
    """Whether a device's ``module`` (torch.cuda, say) cannot be used in this fork."""
    asked = getattr(module, "_is_in_bad_fork", None)
    return asked is not None and bool(asked())


def name_of_private_device(torch: Any) -> str:
    """Of a kind of device that an extension brings."""
    return str(torch._C._get_privateuse1_backend_name())


def step_dtype() -> Any:
    """In which an optimizer that is not fused counts its steps."""
    return importlib.import_module("torch.optim.optimizer")._get_scalar_dtype()


def mark_scaling_supported(optimizer: Any) -> None:
    """As a fused optimizer: ``GradScaler`` hands its scale on, and does not unscale first."""
    optimizer._step_supports_amp_scaling = True


def storage_kinds(torch: Any) -> None:
    """Have torch's maps between dtypes and kinds of storage made now: once made, they stay."""
    for name in ("_dtype_to_storage_type_map", "_storage_type_to_dtype_map"):
        with suppress(AttributeError):
            getattr(torch.storage, name)()
