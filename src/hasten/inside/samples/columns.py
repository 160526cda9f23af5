"""Samples side by side: one tensor for each part of a sample, from which a batch is gathered at once.

A gathered batch equals what torch's ``default_collate`` makes of the samples: values, types, strides and
containers. Samples for which that is not certain are refused.

Source: https://docs.pytorch.org/docs/stable/data.html#torch.utils.data.default_collate
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, Any

from .plain_rows import Layout, Part, laid_out, parts_in_rows
from .rows import is_plain_subset, whole_numbers

if TYPE_CHECKING:
    from torch import Tensor


ROW = Part("")  # of a tensor, as it is


class Uneven(Exception):
    """The samples cannot be stored in columns. The message says why."""


@dataclass(frozen=True)
class Held:
    """Samples that are ``rows`` of ``tensors`` in memory. ``parts``: what a sample has of each, in this
    ``layout``.
    """

    tensors: tuple[Tensor, ...]
    parts: tuple[Part, ...]
    layout: Layout
    rows: Sequence[Any]

    def batch(self, torch: ModuleType) -> Any:
        """As ``default_collate`` makes it of these samples; None if a row is no number, or out of range."""
        wanted = whole_numbers(self.rows)
        if not wanted:
            return None
        ends, where = (min(wanted), max(wanted)), torch.tensor(wanted, dtype=torch.int64, device="cpu")
        pairs = zip(self.tensors, self.parts, strict=True)
        gathered = [_gathered(torch, tensor, part, where, *ends) for tensor, part in pairs]
        return None if any(one is None for one in gathered) else laid_out(gathered, self.layout)


def _gathered(
    torch: ModuleType, tensor: Tensor, part: Part, where: Tensor, first: int, last: int
) -> Tensor | None:
    """A part of the samples from the ``first`` to the ``last`` of those ``where`` it is wanted."""
    rows = 1 if part.length is None else part.length
    if first + part.offset < 0 or last + part.offset + rows > tensor.shape[0]:
        return None
    count, where = len(where), where + part.offset
    if part.length is not None:
        where = (where[:, None] + torch.arange(rows, device="cpu")).view(-1)
    batch: Tensor = tensor.index_select(0, where.to(tensor.device))
    if part.length is not None:
        batch = batch.view(count, rows, *tensor.shape[1:])
    return batch.to(getattr(torch, part.kind)) if part.kind else batch


def tensors_behind(torch: ModuleType, dataset: Any, indices: Sequence[Any]) -> Held | None:
    """The tensors whose rows are the samples of ``dataset``, and the rows that ``indices`` ask for.

    None unless the samples are rows of a TensorDataset, of a data set that holds its tensors likewise, or of
    a Subset of one.
    """
    data = torch.utils.data
    while isinstance(dataset, data.Subset):
        if not is_plain_subset(data, dataset):
            return None
        indices = [dataset.indices[index] for index in indices]
        dataset = dataset.dataset
    parts: tuple[Part, ...]
    layout: Layout
    if getattr(type(dataset), "__getitem__", None) is data.TensorDataset.__getitem__:
        held, layout = tuple(dataset.tensors), ()
        parts = (ROW,) * len(held)
    else:
        parts, layout = parts_in_rows(torch, dataset)
        held = tuple(vars(dataset)[part.name] for part in parts)
    if not held or hasattr(dataset, "__getitems__"):
        return None
    tensors = tuple(_tensor_of(torch, one, part) for one, part in zip(held, parts, strict=True))
    plain = all(is_plain(torch, tensor) and tensor.dim() for tensor in tensors)
    return Held(tensors, parts, layout, indices) if plain else None


def _tensor_of(torch: ModuleType, held: Any, part: Part) -> Any:
    """A tensor with the memory of a plain array, as its rows become tensors in a batch; else what is held.
    None where this part is not made of it.
    """
    kind = type(held)
    if kind.__module__ != "numpy" or kind.__name__ != "ndarray":
        return None if part.of_array else held
    known = held.dtype.kind in "biufc" and held.dtype.char not in "gG"  # torch has no long doubles
    plain = known and held.dtype.isnative and held.flags.writeable and held.flags.c_contiguous
    alone = held.ndim == 1 and part.length is None
    return torch.from_numpy(held) if plain and held.ndim and not (alone and part.of_several) else None


def is_plain(torch: ModuleType, tensor: Tensor) -> bool:
    """Whether stacking rows of ``tensor`` is copying its bytes: dense, contiguous, without a gradient."""
    return _is_dense(torch, tensor) and tensor.is_contiguous()


def _is_dense(torch: ModuleType, tensor: Tensor) -> bool:
    return (
        type(tensor) is torch.Tensor
        and tensor.layout is torch.strided
        and not (tensor.requires_grad or tensor.is_quantized or tensor.is_nested)
        and not (tensor.is_conj() or tensor.is_neg())
    )


def gather(torch: ModuleType, tensors: Sequence[Tensor], indices: list[int]) -> list[Tensor] | None:
    """Rows ``indices`` of each tensor, in fresh memory; None if an index is out of range: the dataset's
    own error is better.
    """
    found: list[Tensor] | None = Held(tuple(tensors), (ROW,) * len(tensors), (), indices).batch(torch)
    return found


class Columns:
    """Samples of one dataset side by side, in the order of their indices."""

    def __init__(self, torch: ModuleType, samples: Sequence[object]) -> None:
        """Raises Uneven if batches could not be gathered from them."""
        self._torch = torch
        self._tensors: list[Tensor] = []
        self._otherwise = False  # some parts lie otherwise than their batch
        self._rebuild = self._lay(list(samples), "")
        if self._otherwise:
            self._compare(samples)

    def batch(self, indices: list[int]) -> object:
        """As ``default_collate([samples[i] for i in indices])``; None if an index is out of range."""
        gathered = gather(self._torch, self._tensors, indices)
        return None if gathered is None else self._rebuild(gathered)

    def _compare(self, samples: Sequence[object]) -> None:
        """Compare small batches with torch's own: it chooses their layout if samples are not contiguous."""
        for count in {1, min(2, len(samples))}:
            indices = list(range(count))
            expected = self._torch.utils.data.default_collate([samples[index] for index in indices])
            if not same_batch(self.batch(indices), expected):
                raise Uneven("neither samples nor their batches are contiguous tensors")

    def _lay(self, parts: list[Any], where: str) -> Callable[[list[Tensor]], object]:
        """Lay one part of all samples side by side; returns a function that makes that part of a batch from
        the gathered tensors.
        """
        first, kind = parts[0], type(parts[0])
        if any(type(part) is not kind for part in parts):
            raise Uneven(f"samples differ in type{where}")
        if kind in (tuple, list):
            if any(len(part) != len(first) for part in parts):
                raise Uneven(f"samples differ in length{where}")
            lists = [self._lay([p[n] for p in parts], f"{where} at {n}") for n in range(len(first))]
            return lambda gathered: [make(gathered) for make in lists]
        if kind is dict:
            if any(list(part) != list(first) for part in parts):
                raise Uneven(f"samples differ in keys{where}")
            items = {key: self._lay([p[key] for p in parts], f"{where} at {key!r}") for key in first}
            return lambda gathered: {key: make(gathered) for key, make in items.items()}
        self._check(parts, where)
        number = len(self._tensors)
        self._tensors.append(self._torch.utils.data.default_collate(parts))
        return lambda gathered: gathered[number]

    def _check(self, parts: list[Any], where: str) -> None:
        torch, first, kind = self._torch, parts[0], type(parts[0])
        if kind is torch.Tensor:
            if any(
                part.shape != first.shape or part.dtype != first.dtype or part.device != first.device
                for part in parts
            ):
                raise Uneven(f"samples differ in shape or type{where}")
            if not all(_is_dense(torch, part) for part in parts):
                raise Uneven(f"samples are not plain tensors{where}")
            self._otherwise = self._otherwise or not all(part.is_contiguous() for part in parts)
        elif kind.__module__ == "numpy" and hasattr(first, "dtype"):
            if any(part.dtype != first.dtype or part.shape != first.shape for part in parts):
                raise Uneven(f"samples differ in shape or type{where}")
            if first.dtype.kind not in "biufc" or any(min(part.strides, default=0) < 0 for part in parts):
                raise Uneven(f"samples are not plain arrays{where}")
            self._otherwise = self._otherwise or not all(part.flags.c_contiguous for part in parts)
        elif kind not in (int, bool, float):
            raise Uneven(f"samples hold {kind.__name__}{where}, which a tensor cannot")


def same_batch(a: Any, b: Any) -> bool:
    """Equal in containers, types, shapes, strides and every byte."""
    from .sampling_proof import same_sample

    if type(a) is not type(b):
        return False
    if hasattr(a, "element_size"):
        return bool(a.stride() == b.stride()) and same_sample(a, b)
    if isinstance(a, (tuple, list)):
        return len(a) == len(b) and all(map(same_batch, a, b))
    if isinstance(a, dict):
        return list(a) == list(b) and all(same_batch(a[key], b[key]) for key in a)
    return same_sample(a, b)
