"""What is in a batch: nested lists, tuples and dicts of tensors, of whatever a script's loader makes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor

_FIRST_VALUES = 64  # of a list: its elements are counted in every step


def batch_length(batch: object) -> int:
    """Samples in a batch: the length of the first tensor found in it, depth first; 0 if there is none."""
    return _first_length(batch) or 0


def observations_in(batch: object) -> int:
    """Like ``batch_length``; 0 if the first tensor holds whole numbers: tokens, which a model writes on with,
    rather than what an environment shows.
    """
    first = next(iter(tensors_in(batch)), None)
    return 0 if first is None or not first.is_floating_point() else batch_length(first)


def _first_length(value: Any) -> int | None:
    """As ``batch_length``, but None if there is not a tensor. Stops at the first: it runs in every step."""
    if hasattr(value, "element_size"):
        return int(value.shape[0]) if value.dim() else None
    if isinstance(value, Mapping):
        value = value.values()
    elif not isinstance(value, (list, tuple)):
        return None
    for item in value:
        length = _first_length(item)
        if length is not None:
            return length
    return None


def elements_in(batch: object) -> int:
    """Numbers in a batch's tensors, in nested lists, tuples and dicts; only the first values of each."""
    if hasattr(batch, "element_size"):
        return int(batch.numel())  # type: ignore[attr-defined]
    if isinstance(batch, Mapping):
        batch = list(batch.values())
    if isinstance(batch, (list, tuple)):
        return sum(map(elements_in, batch[:_FIRST_VALUES]))
    return 0


def batch_bytes(batch: object) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors_in(batch))


def is_mostly_float64(batch: object) -> bool:
    """Whether most of its bytes are: a label alone may be, because Python's numbers are."""
    tensors = tensors_in(batch)
    double = batch_bytes([tensor for tensor in tensors if str(tensor.dtype) == "torch.float64"])
    return 2 * double > batch_bytes(tensors)


def tensors_in(value: Any) -> list[Tensor]:
    """The tensors in nested lists, tuples and dicts, depth first."""
    if hasattr(value, "element_size"):
        return [value]
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        return [tensor for item in value for tensor in tensors_in(item)]
    return []
