"""The memory layout of a parameter, its gradient and its optimizer state."""

from __future__ import annotations

from typing import Any


def companions(torch: Any, parameter: Any, state: Any) -> list[Any]:
    """The parameter, its gradient and the state tensors of its shape."""
    candidates = (parameter, parameter.grad, *state.get(parameter, {}).values())
    return [tensor for tensor in candidates if torch.is_tensor(tensor) and tensor.shape == parameter.shape]


def lie_alike(a: Any, b: Any) -> bool:
    """Whether two tensors of one shape have the same layout. Strides of size-1 dimensions do not matter."""
    strides = zip(a.shape, a.stride(), b.stride(), strict=True)
    return all(size == 1 or first == second for size, first, second in strides)


def restore_strides(torch: Any, tensor: Any, strides: tuple[int, ...]) -> None:
    """Lay ``tensor`` out with ``strides`` again, values unchanged."""
    if tensor.stride() != strides:
        plain = torch.empty_strided(tensor.shape, strides, dtype=tensor.dtype, device=tensor.device)
        tensor.data = plain.copy_(tensor.data)
