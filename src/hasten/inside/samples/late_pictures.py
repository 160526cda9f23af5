"""Pictures that wait for their batch: they become tensors together instead of one by one.

``Late`` replaces the transforms at the end of a list that turn a picture into a tensor. It passes on the
picture's bytes (``Pixels``), from which ``collate`` makes the tensor of a whole batch. Anything without proof
of equal results goes through the script's own transforms at once or, if the pictures of a batch differ, when
they are collated.

Source: https://docs.pytorch.org/docs/stable/data.html#torch.utils.data.default_collate
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeAlias

from ..internals.loaders import collating, shared_floats
from .columns import same_batch
from .conversions import Operation, Transform, candidates, convert, every_byte
from .sampling_proof import raw_bytes

if TYPE_CHECKING:
    from torch import Tensor

Gather: TypeAlias = "Callable[[Sequence[Pixels]], object]"
"""Compatible pictures -> the representation of their batch."""

_MODES = {"L": 1, "RGB": 3, "RGBA": 4}  # Pillow modes: bytes per pixel
_CHANNELS = (1, 3, 4)  # for pictures that are already tensors
_ALL = {**_MODES, **{f"tensor {count}": count for count in _CHANNELS}}


class Pixels:
    """A picture's bytes: its ``content`` of ``kind``, of shape ``lying`` in their own layout (height, width,
    channels, or a tensor's). To the script it is a tensor of which nothing can be asked: that raises, also in
    ``hasattr``, and the batch is made as without us.
    """

    __slots__ = ("content", "kind", "late", "lying")

    def __init__(self, late: Late, kind: str, lying: tuple[int, ...], content: Any) -> None:
        self.late, self.kind, self.lying, self.content = late, kind, lying, content

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        return sys.modules["torch"].Tensor

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise TypeError(f"{name} of a picture that is no tensor yet")

    def finished(self) -> object:
        """The result of the script's own transforms."""
        if isinstance(self.content, bytes):
            picture = _pillow().frombytes(self.kind, (self.lying[1], self.lying[0]), self.content)
            return self.late.finish(picture)
        return self.late.finish(self.content)

    def goes_with(self, other: object) -> bool:
        """Whether both can be in one batch."""
        if not isinstance(other, Pixels) or other.late is not self.late:
            return False
        return other.kind == self.kind and other.lying == self.lying


class Late:
    """Replaces ``tail``. ``operations`` by kind of picture: the proven computation."""

    def __init__(self, torch: ModuleType, tail: Sequence[Transform]) -> None:
        self._torch = torch
        self.tail = tuple(tail)
        self.operations: dict[str, list[Operation]] = {}
        self._tables: dict[str, bytes] = {}
        self.channels_last = False  # how torch's stack lays out these batches outside of worker processes

    def __call__(self, *values: Any) -> object:
        pixels = self._pixels(values[0]) if len(values) == 1 else None
        return self.finish(*values) if pixels is None else pixels

    def finish(self, *values: Any) -> object:
        """The result as without us."""
        for transform in self.tail:
            made = transform(*values)
            values = made if len(values) > 1 else (made,)
        return made

    def _pixels(self, value: Any) -> Pixels | None:
        kind = _kind_of(self._torch, value)
        if kind not in self.operations:
            return None
        if kind not in _MODES:
            return Pixels(self, kind, tuple(value.shape), value)
        width, height = value.size
        return Pixels(self, kind, (height, width, _MODES[kind]), value.tobytes())

    def batch(self, pictures: Sequence[Pixels]) -> Tensor:
        """The tensor that stacking the tensors of these pictures would give."""
        torch = self._torch
        pixels = planes(side_by_side(torch, pictures), pictures[0].kind)
        shape = tuple(pixels.shape)
        if torch.utils.data.get_worker_info() is not None:
            floats = shared_floats(torch, shape)
        else:
            layout = torch.channels_last if self.channels_last else torch.contiguous_format
            floats = torch.empty(shape, dtype=torch.float32, device="cpu", memory_format=layout)
        convert(pixels, floats, self.operations[pictures[0].kind])
        return floats

    def table(self, kind: str) -> bytes:
        """What each byte becomes: float32, 256 for each channel."""
        if kind not in self._tables:
            torch, shape = self._torch, (1, _ALL[kind], 16, 16)
            floats = torch.empty(shape, dtype=torch.float32, device="cpu")
            once = torch.arange(256).to(torch.uint8).view(1, 1, 16, 16)
            convert(once.expand(shape), floats, self.operations[kind])
            self._tables[kind] = raw_bytes(floats)
        return self._tables[kind]

    def prove(self) -> dict[str, int]:
        """Try every byte on each kind of picture; which candidate computes the same, by kind."""
        found = {}
        for kind, channels in _ALL.items():
            with suppress(Exception):  # the script's own error: pictures of this kind never get through
                number = self._number(kind, _picture(self._torch, kind, channels))
                if number is not None:
                    found[kind] = number
        return found

    def _number(self, kind: str, picture: Any) -> int | None:
        """The number of the candidate that computes what the transforms do."""
        expected = self.finish(picture)
        wanted = self._torch.utils.data.default_collate([expected, expected])
        for number, operations in enumerate(candidates(self._torch, self.tail)):
            self.operations = {kind: operations}
            made = self._pixels(picture)
            if made is not None and same_values(self.batch([made, made]), wanted):
                return number
        return None

    def trust(self, proven: dict[str, int]) -> None:
        """Adopt what ``prove`` found, here or in another process."""
        every = list(candidates(self._torch, self.tail))
        self.operations = {kind: every[number] for kind, number in proven.items()}
        self._tables.clear()


def same_values(ours: Tensor, theirs: Any) -> bool:
    """Equal to the last bit, whatever the memory layout."""
    alike = getattr(theirs, "shape", None) == ours.shape
    return alike and same_batch(ours.contiguous(), theirs.contiguous())


def floats_of(pictures: Sequence[Pixels]) -> object:
    return pictures[0].late.batch(pictures)


def collate(samples: Sequence[object], gather: Gather = floats_of) -> object:
    """Like ``default_collate`` of the samples as they would be without us, with ``gather``'s result instead
    of batches of pictures.
    """
    functions = collating()

    def collate_pixels(batch: Sequence[Any], *, collate_fn_map: Any = None) -> object:
        first: Pixels = batch[0]
        if all(first.goes_with(one) for one in batch):
            return gather(batch)
        whole = [one.finished() if isinstance(one, Pixels) else one for one in batch]
        return functions.collate(whole, collate_fn_map=collate_fn_map)

    return functions.collate(
        samples, collate_fn_map={**functions.default_collate_fn_map, Pixels: collate_pixels}
    )


def holds_pixels(sample: Any) -> bool:
    if isinstance(sample, dict):
        sample = list(sample.values())
    if isinstance(sample, (list, tuple)):
        return any(map(holds_pixels, sample))
    return isinstance(sample, Pixels)


def side_by_side(torch: ModuleType, pictures: Sequence[Pixels]) -> Tensor:
    """Bytes in each picture's own layout."""
    first = pictures[0]
    pixels: Tensor
    if isinstance(first.content, bytes):
        together = bytearray().join(one.content for one in pictures)
        pixels = torch.frombuffer(together, dtype=torch.uint8).view(len(pictures), *first.lying)
    else:
        pixels = torch.stack([one.content.as_subclass(torch.Tensor) for one in pictures])
    return pixels


def planes(pixels: Tensor, kind: str) -> Tensor:
    """(N, C, H, W), without a copy."""
    return pixels.permute(0, 3, 1, 2) if kind in _MODES else pixels


def _kind_of(torch: ModuleType, value: Any) -> str:
    """The kind of a picture of bytes; "" for anything else."""
    if isinstance(value, torch.Tensor):
        here = value.dtype == torch.uint8 and value.ndim == 3 and value.device.type == "cpu"
        return f"tensor {value.shape[0]}" if here else ""
    module = sys.modules.get("PIL.Image")
    return str(value.mode) if module is not None and isinstance(value, module.Image) else ""


def _picture(torch: ModuleType, kind: str, channels: int) -> Any:
    """One that holds every byte in each channel."""
    pixels = every_byte(torch, channels)
    if kind not in _MODES:
        return pixels
    return _pillow().frombytes(kind, (16, 16), bytes(pixels.permute(1, 2, 0).flatten().tolist()))


def _pillow() -> Any:
    """Pillow's Image module, which the script has imported if it has such pictures."""
    return sys.modules["PIL.Image"]
