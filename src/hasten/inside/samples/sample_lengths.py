"""How long the sequences in a data set's samples are.

Its samples are read once, in a separate process, so that nothing changes for the training. Sequences are rows
of integers (ids, masks), rows and matrices of numbers that are longer in some samples than in others, and
texts if a sample only holds a text and numbers. If rows all have the same width, repetitions of the last
value at the end are padding. The longest of a sample's sequences counts.
"""

from __future__ import annotations

import time
from array import array
from collections.abc import Iterator
from types import ModuleType
from typing import Any

from ..process.own_offsets import open_files_anew
from .sampling_proof import is_picture, told_apart
from .shared_memory import why_not_apart

_LOOKED_AT = 64  # samples between two estimates of the total reading time
_PATIENCE = 2.0  # times as long, at most, before giving up on the process
_MOST_PARTS = 16  # of a sample
_MOST_LABELS = 2  # in a row: a text and its label are not a sequence
_DEEPEST = 4
_IDS, _ROWS, _TEXT, _PICTURE = "ids", "rows", "text", "picture"

Extent = tuple[str, int, int]
"""A part of a sample: its kind, its length, and its length without trailing repetitions."""


def lengths_of(torch: ModuleType, dataset: Any, count: int, seconds: float) -> tuple[str, list[int]]:
    """("", the lengths of its ``count`` samples), or (why they are not known, []): one is that reading all
    would take more than so many ``seconds``.
    """
    name = type(dataset).__name__
    if reason := why_not_apart(dataset):
        return reason, []
    answer = told_apart(torch, lambda: _told(torch, dataset, count, seconds), _PATIENCE * seconds)
    if answer is None:
        return f"reading the samples of {name} in a separate process did not end", []
    why_not, lengths = answer
    return str(why_not), list(lengths)


def _told(torch: ModuleType, dataset: Any, count: int, seconds: float) -> tuple[str, list[int]]:
    name = type(dataset).__name__
    try:
        open_files_anew()
        return _read(torch, dataset, count, seconds)
    except Exception as error:
        return f"reading a sample of {name} failed: {type(error).__name__}: {error}"[:500], []


def _read(torch: ModuleType, dataset: Any, count: int, seconds: float) -> tuple[str, list[int]]:
    parts: dict[str, _Part] = {}
    began = time.monotonic()
    for number in range(count):
        for where, extent in _extents(torch, dataset[number]):
            if extent[0] == _PICTURE:
                return f"samples of {type(dataset).__name__} hold more than sequences", []
            if where in parts or len(parts) < _MOST_PARTS:
                parts.setdefault(where, _Part(extent[0], count)).put(number, extent)
        if number % _LOOKED_AT == _LOOKED_AT - 1:
            expected = (time.monotonic() - began) / (number + 1) * count
            if expected > seconds:
                return f"reading all of {type(dataset).__name__} for its lengths takes {expected:.0f} s", []
    return _chosen(type(dataset).__name__, list(parts.values()), count)


class _Part:
    """The extents of one part, in all samples."""

    def __init__(self, kind: str, count: int) -> None:
        self.kind = kind
        self.found = 0
        self._lengths, self._used = (array("q", bytes(8 * count)) for _ in range(2))

    def put(self, number: int, extent: Extent) -> None:
        self.found += 1
        _, self._lengths[number], self._used[number] = extent

    def varying(self) -> array[int] | None:
        """Lengths by this part, if they vary; otherwise None."""
        if min(self._lengths) != max(self._lengths):
            return self._lengths
        is_padded = self.kind == _IDS and min(self._used) != max(self._used)
        return self._used if is_padded else None


def _chosen(name: str, parts: list[_Part], count: int) -> tuple[str, list[int]]:
    sequences = [part for part in parts if part.kind != _TEXT]
    sequences = sequences or [part for part in parts if part.found > count / 2]
    if not sequences:
        return f"no sequences were found in samples of {name}", []
    telling = [found for part in sequences if (found := part.varying()) is not None]
    if not telling:
        return f"the sequences of {name} are all of one length", []
    return "", [max(lengths) for lengths in zip(*telling, strict=True)]


# ---- what is in a sample
def _extents(
    torch: ModuleType, value: Any, where: str = "", depth: int = _DEEPEST
) -> Iterator[tuple[str, Extent]]:
    """The sequences in a sample, each with where it is."""
    if is_picture(value):
        yield where, (_PICTURE, 0, 0)
    elif isinstance(value, str):
        if " " in value:  # otherwise a name
            yield where, (_TEXT, len(value), len(value))
    elif torch.is_tensor(value) or (hasattr(value, "tobytes") and hasattr(value, "dtype")):
        if (extent := _extent_of(torch, value)) is not None:
            yield where, extent
    elif isinstance(value, dict):
        for key, part in list(value.items())[:_MOST_PARTS] if depth else ():
            yield from _extents(torch, part, f"{where}.{key}", depth - 1)
    elif isinstance(value, (list, tuple)):
        if len(value) > _MOST_LABELS and all(isinstance(part, (int, float, str)) for part in value):
            yield where, _extent_of_list(value)
            return
        for key, part in enumerate(value[:_MOST_PARTS] if depth else ()):
            yield from _extents(torch, part, f"{where}.{key}", depth - 1)


def _extent_of(torch: ModuleType, value: Any) -> Extent | None:
    """The extent of a tensor or a numpy array; None for a number."""
    tensor = torch.as_tensor(value)
    if tensor.dim() > 1 and tensor.shape[0] == 1:
        tensor = tensor[0]  # as a tokenizer returns it
    if tensor.dim() > 2:
        return _PICTURE, 0, 0
    if tensor.dim() == 0 or not len(tensor):
        return None
    length = len(tensor)
    if tensor.dim() == 2 or tensor.is_floating_point():
        return _ROWS, length, length
    differs = (tensor != tensor[-1]).nonzero()
    return _IDS, length, int(differs[-1]) + 1 if len(differs) else 0


def _extent_of_list(values: list[Any] | tuple[Any, ...]) -> Extent:
    """The extent of a list of numbers or words."""
    length = used = len(values)
    while used and values[used - 1] == values[-1]:
        used -= 1
    return _IDS if all(isinstance(value, int) for value in values) else _ROWS, length, used
