"""The transforms that turn a picture into a tensor, as arithmetic on a whole batch.

Such transforms are recognised by name, torchvision's or a script's own. What they compute is never derived
from the name: it is tried on every byte that a channel can hold, and must be the same to the last bit. It is
one of few things: bytes become float32, are divided by 255 or multiplied by 1/255, and ``Normalize``
subtracts a mean and divides by a standard deviation.

Source: https://docs.pytorch.org/vision/stable/transforms.html
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from torch import Tensor

Transform: TypeAlias = Callable[..., Any]
Operation: TypeAlias = "tuple[str, Tensor | float]"
"""A tensor's in-place method, and its argument."""

_TO_FLOATS = {"ToTensor", "MaybeToTensor", "to_tensor", "ConvertImageDtype", "ToDtype"}
_OTHERS = {"PILToTensor", "pil_to_tensor", "ToImage", "ToPureTensor"}  # they leave bytes as they are
_AT_ONCE = 2**15 - 1  # elements: they fit in a core's cache, and torch does not split fewer across threads


def tail_of(transforms: Sequence[object]) -> int:
    """How many transforms at the end of the list turn a picture into a float tensor; 0: none."""
    count = 0
    while count < len(transforms) and _is_known(transforms[-1 - count]):
        count += 1
    while count and not _makes_floats(transforms[len(transforms) - count :]):
        count -= 1
    return count


def _makes_floats(tail: Sequence[object]) -> bool:
    """Whether bytes become floats before anything else is computed."""
    first = next((_name(one) for one in tail if _name(one) not in _OTHERS), "")
    return first in _TO_FLOATS


def _is_known(transform: Any) -> bool:
    name = _name(transform)
    if name == "Normalize":
        return hasattr(transform, "mean") and hasattr(transform, "std")
    if name in ("ToDtype", "ConvertImageDtype"):
        return str(getattr(transform, "dtype", "")) == "torch.float32"
    return name in _TO_FLOATS or name in _OTHERS


def _name(transform: object) -> str:
    return str(getattr(transform, "__name__", None) or type(transform).__name__)


def candidates(torch: ModuleType, tail: Sequence[Any]) -> Iterator[list[Operation]]:
    """What the transforms may compute from bytes as floats, likeliest first."""
    normalizing: list[Operation] = []
    for transform in tail:
        if _name(transform) == "Normalize":
            normalizing.append(("sub_", _by_channel(torch, transform.mean)))
            normalizing.append(("div_", _by_channel(torch, transform.std)))
    scaling: list[list[Operation]] = [[("div_", 255.0)], [("mul_", 1.0 / 255)], []]
    for scale in scaling:
        yield [*scale, *normalizing]


def _by_channel(torch: ModuleType, values: Any) -> Tensor:
    found: Tensor = torch.as_tensor(values, dtype=torch.float32, device="cpu")
    return found.view(-1, 1, 1) if found.ndim == 1 else found


def convert(pixels: Tensor, floats: Tensor, operations: Sequence[Operation]) -> None:
    """Apply the operations to ``pixels``, bytes of the same (N, C, H, W), and write to ``floats``."""
    rows = max(1, _AT_ONCE // max(1, floats[0].numel()))
    for begin in range(0, len(floats), rows):
        into = floats[begin : begin + rows]
        into.copy_(pixels[begin : begin + rows])
        for name, operand in operations:
            getattr(into, name)(operand)


def every_byte(torch: ModuleType, channels: int) -> Tensor:
    """A picture (C, 16, 16) whose channels hold each byte once, each channel in a different order."""
    rising = torch.arange(256, dtype=torch.int64)
    rows = [(rising * (2 * n + 1) + 85 * n) % 256 for n in range(channels)]  # odd factors: permutations
    made: Tensor = torch.stack(rows).to(torch.uint8).view(channels, 16, 16)
    return made
