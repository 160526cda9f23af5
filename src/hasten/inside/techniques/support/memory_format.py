"""The memory layout of a parameter, its gradient and its optimizer state."""

from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType
from typing import TYPE_CHECKING, Any

from ...internals.other_functions import other_users

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module


OptimizerState = Mapping["Tensor", Mapping[str, Any]]


def companions(torch: ModuleType, parameter: Tensor, state: OptimizerState) -> list[Tensor]:
    """The parameter, its gradient and the state tensors of its shape."""
    candidates = (parameter, parameter.grad, *state.get(parameter, {}).values())
    return [tensor for tensor in candidates if torch.is_tensor(tensor) and tensor.shape == parameter.shape]


def lie_alike(a: Tensor, b: Tensor) -> bool:
    """Whether two tensors of one shape have the same layout. Strides of size-1 dimensions do not matter."""
    strides = zip(a.shape, a.stride(), b.stride(), strict=True)
    return all(size == 1 or first == second for size, first, second in strides)


def is_dense(tensor: Tensor) -> bool:
    """Whether its elements fill one piece of memory. Those of a slice of a larger tensor often do not."""
    if tensor.is_contiguous():
        return True
    filled = 1
    for stride, size in sorted(zip(tensor.stride(), tensor.shape, strict=True)):
        if size != 1:
            if stride != filled:
                return False
            filled *= size
    return True


def restore_strides(torch: ModuleType, tensor: Tensor, strides: tuple[int, ...]) -> None:
    """Lay ``tensor`` out with ``strides`` again, values unchanged."""
    if tensor.stride() != strides:
        plain = torch.empty_strided(tensor.shape, strides, dtype=tensor.dtype, device=tensor.device)
        tensor.data = plain.copy_(tensor.data)


def is_part(tensor: Tensor) -> bool:
    """Whether its memory holds more than it, such as a buffer for all weights."""
    return tensor.untyped_storage().nbytes() > tensor.numel() * tensor.element_size()


def is_shared(torch: ModuleType, tensor: Tensor) -> bool:
    """Whether others follow what is written into it: views, ``model.state_dict()``, arrays, processes."""
    storage = tensor.untyped_storage()
    between_processes = tensor.device.type == "cpu" and storage.is_shared()
    return is_part(tensor) or between_processes or other_users(torch, tensor) > 0


def renewed_views(root: Module) -> list[Tensor]:
    """Parameters whose view each pass replaces: ``spectral_norm`` sets ``weight``, of ``weight_orig``, to
    such a view until the first one.
    """
    return [
        parameter
        for module in root.modules()
        for name, parameter in module.named_parameters(recurse=False)
        if name.endswith("_orig") and name.removesuffix("_orig") in vars(module)
    ]
