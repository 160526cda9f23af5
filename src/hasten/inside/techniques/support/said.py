"""What a model gets besides tensors: numbers and names, which say how it computes; and lists with a value
for each sample, such as lengths, which it computes from.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor

_PLAIN = (bool, int, float, complex, str, bytes, type(None))
_DEEPEST = 6
_FEW = 4  # values: this many may be a shape, or the choices of something


def said_in(torch: ModuleType, value: Any, rows: int, depth: int = _DEEPEST) -> Hashable:
    """Equal for calls that get the same. For tensors and anything with a value for each of ``rows``
    samples it is only said that they are there.
    """
    kind = type(value).__qualname__
    if isinstance(value, (*_PLAIN, torch.dtype, torch.device)):
        return kind, repr(value)
    if torch.is_tensor(value):
        return kind, _said_by(value)
    if is_for_each(value, rows):
        return kind, "for each sample"
    if _is_array(value):
        return kind, str(value.dtype), value.shape, value.tobytes()
    if isinstance(value, torch.nn.Module) or callable(value):
        return kind, id(value)
    return kind, tuple(
        (key, said_in(torch, part, rows, depth - 1)) for key, part in (_parts_of(value) if depth else ())
    )


def _said_by(tensor: Tensor) -> Hashable:
    """The number in a tensor, if it may be a choice and that does not wait for another device."""
    is_choice = tensor.dim() == 0 and not (tensor.is_floating_point() or tensor.is_complex())
    return tensor.item() if is_choice and tensor.device.type == "cpu" else None


def _parts_of(value: Any) -> Iterable[tuple[str, Any]]:
    """The contents of a container, or the numbers and names of another object."""
    if isinstance(value, Mapping):
        return [(repr(key), part) for key, part in value.items()]
    if isinstance(value, (set, frozenset)):
        return [("", text) for text in sorted(map(repr, value))]
    if isinstance(value, Sequence):
        return [("", part) for part in value]
    own = vars(value) if hasattr(value, "__dict__") else {}
    return [(name, part) for name, part in own.items() if isinstance(part, _PLAIN)]


def is_for_each(value: Any, rows: int) -> bool:
    """Whether ``value`` has a number or a text for each of this many samples."""
    if rows <= _FEW:
        return False
    if _is_array(value):
        return bool(value.shape[:1] == (rows,))
    is_list = type(value) in (list, tuple) and len(value) == rows
    return is_list and all(isinstance(part, _PLAIN) for part in value)


def _is_array(value: Any) -> bool:
    """Whether it is a numpy array; numpy may be missing."""
    return hasattr(value, "tobytes") and hasattr(value, "dtype") and hasattr(value, "shape")


def of_samples(value: Any, rows: int, samples: list[int]) -> Any:
    """``value`` with what these ``samples`` have in place of what each of ``rows`` has; tensors stay."""
    if is_for_each(value, rows):
        return value[samples] if _is_array(value) else type(value)(value[n] for n in samples)
    if type(value) is dict:
        return {key: of_samples(part, rows, samples) for key, part in value.items()}
    if type(value) in (list, tuple):
        return type(value)(of_samples(part, rows, samples) for part in value)
    return value
