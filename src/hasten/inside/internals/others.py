"""Other functions of torch: over lists of tensors, of the profiler, of storages."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

PROFILER_ENABLED = "_enable_profiler"  # of torch.autograd.profiler: the profiler starts


def add_each(torch: Any, onto: Sequence[Any], others: Sequence[Any]) -> None:
    """Add one list of tensors to another, in place."""
    torch._foreach_add_(onto, others)


def copy_each(torch: Any, into: Sequence[Any], others: Sequence[Any]) -> None:
    torch._foreach_copy_(into, others)


def multiply_each(torch: Any, tensors: Sequence[Any], factor: Any) -> None:
    torch._foreach_mul_(tensors, factor)


def unscale_each(torch: Any, gradients: Sequence[Any], found: Any, inverse: Any) -> None:
    """Multiply by ``inverse``; ``found`` becomes 1 if any is not finite. As ``GradScaler`` does."""
    torch._amp_foreach_non_finite_check_and_unscale_(gradients, found, inverse)


def stored_values(sparse: Any) -> Any:
    """The values of a sparse tensor, not copied."""
    return sparse._values()


def map_leaves(torch: Any, change: Any, value: Any) -> Any:
    """``value`` with each leaf changed, in lists, tuples, dicts and registered containers."""
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
    """The name of the kind of device that an extension of torch adds."""
    return str(torch._C._get_privateuse1_backend_name())


def step_dtype() -> Any:
    """The dtype in which an optimizer that is not fused counts its steps."""
    return importlib.import_module("torch.optim.optimizer")._get_scalar_dtype()


def mark_scaling_supported(optimizer: Any) -> None:
    """As for a fused optimizer, ``GradScaler`` hands it its scale, and does not unscale first."""
    optimizer._step_supports_amp_scaling = True


def storage_kinds(torch: Any) -> None:
    """Let torch build its maps between dtypes and storage classes now: they are cached."""
    for name in ("_dtype_to_storage_type_map", "_storage_type_to_dtype_map"):
        with suppress(AttributeError):
            getattr(torch.storage, name)()
