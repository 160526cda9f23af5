"""The transforms that make a tensor of a picture, as arithmetic that a whole batch can be given to.

Such transforms are known by their names, as torchvision's or a script's own. What they compute is never taken
from the names: it is tried on every byte that a channel can hold, and has to be the same to the last bit. It
is one of few things: bytes become float32, are divided by 255 or multiplied by 1/255, and ``Normalize``
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
"""A method of a tensor that works in place, and what it is given."""

_TO_FLOATS = {"ToTensor", "MaybeToTensor", "to_tensor", "ConvertImageDtype", "ToDtype"}
_OTHERS = {"PILToTensor", "pil_to_tensor", "ToImage", "ToPureTensor"}  # they leave bytes as they are
_AT_ONCE = 2**15 - 1  # elements: they stay in a core's cache, and torch shares no fewer among threads


def tail_of(transforms: Sequence[object]) -> int:
    """How many transforms at the end of the list make a tensor of floats of a picture; 0: none does."""
    count = 0
    while count < len(transforms) and _is_known(transforms[-1 - count]):
        count += 1
    while count and not _makes_floats(transforms[len(transforms) - count :]):
        count -= 1
    return count


def _makes_floats(tail: Sequence[object]) -> bool:
    """Whether something makes floats of bytes before anything else is computed."""
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
    """What the transforms may compute of floats that hold bytes, the likeliest first."""
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
    """Write into ``floats`` what the operations make of ``pixels``, bytes of the same (N, C, H, W)."""
    rows = max(1, _AT_ONCE // max(1, floats[0].numel()))
    for begin in range(0, len(floats), rows):
        into = floats[begin : begin + rows]
        into.copy_(pixels[begin : begin + rows])
        for name, operand in operations:
            getattr(into, name)(operand)


def every_byte(torch: ModuleType, channels: int) -> Tensor:
    """A picture (C, 16, 16) whose channels hold each byte once, each channel in an order of its own."""
    rising = torch.arange(256, dtype=torch.int64)
    rows = [(rising * (2 * n + 1) + 85 * n) % 256 for n in range(channels)]  # odd factors: permutations
    made: Tensor = torch.stack(rows).to(torch.uint8).view(channels, 16, 16)
    return made
