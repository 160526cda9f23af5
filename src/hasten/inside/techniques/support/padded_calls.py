"""Where the sequences of a model's call are, how wide they must be, and the call with its padding cut off.

A call is the tuple (args, kwargs) of a forward pass; its tensors are numbered in the order of
``structures.tensors_of``. Sequences are as wide as the call's matrices of whole numbers: ids of tokens,
masks. Everything of that width is cut with them: features, masks of attention, positions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from types import ModuleType
from typing import TYPE_CHECKING, Any

from ...observing.padding import (
    are_positions,
    is_in_memory,
    is_matrix_of_whole_numbers,
    rounded_up,
    rows_of,
    widths_of,
)
from ...structures import Structure, map_tensors, tensors_of
from .said import of_samples

if TYPE_CHECKING:
    from torch import Tensor

Cuts = Mapping[int, Sequence[tuple[int, int]]]
"""By a tensor's number: the dimensions to cut, each with the length to keep."""


@dataclass
class Known:
    """What was proven of a model's calls. ``padding``: by a tensor's number, the value that pads it;
    ``positions``: numbers of tensors that count up, which hold no padding; ``hidden``: all values that a
    tensor had, see ``_hidden_by``.
    """

    padding: dict[int, Any] = field(default_factory=dict)
    positions: set[int] = field(default_factory=set)
    hidden: dict[int, set[Any]] = field(default_factory=dict)

    def add(self, found: Found) -> None:
        self.padding |= found.padding
        self.positions |= found.positions
        for number, value in found.hidden.items():
            self.hidden.setdefault(number, set()).add(value)


@dataclass(frozen=True)
class Found:
    """A call that can be cut. ``widths``: the columns of its sequences and how many are kept; ``leads``: the
    columns of its matrices by number, the first of each width; ``padding``, ``positions`` and ``hidden`` as
    in ``Known``, for this call.
    """

    widths: Mapping[int, int]
    leads: Mapping[int, int]
    cuts: Cuts
    padding: Mapping[int, Any]
    positions: frozenset[int]
    hidden: Mapping[int, Any] = field(default_factory=dict)

    @property
    def cut(self) -> frozenset[int]:
        """The leads that are cut."""
        return frozenset(lead for lead, width in self.leads.items() if width in self.widths)

    @property
    def columns(self) -> tuple[int, int]:
        """Columns that are cut, and all columns."""
        return sum(wide - kept for wide, kept in self.widths.items()), sum(self.widths)

    def is_known(self, known: Known) -> bool:
        """Whether it is padded with the same values as the calls that were proven, and its masks hide padding
        as theirs did.
        """
        is_filled_up = all(
            number in known.padding and known.padding[number] == value
            for number, value in self.padding.items()
        )
        hides = all(value in known.hidden.get(number, ()) for number, value in self.hidden.items())
        return is_filled_up and hides and self.positions <= known.positions


def find(tensors: Sequence[Tensor], known: Known, multiple: int) -> Found | None:
    """How the call with these tensors can be cut; None if nothing of it is known to be padding. Kept are
    columns in a multiple of ``multiple``.
    """
    if not all(map(is_in_memory, tensors)):
        return None
    rows = rows_of(tensors)
    widths = widths_of(tensors, rows)
    if not widths:
        return None
    dims = {n: _dims(t, rows, widths) for n, t in enumerate(tensors)}
    positions = {n for n in dims if _counts_on(tensors[n], n, known)}
    kept: dict[int, int] = {}
    padding: dict[int, Any] = {}
    for width in widths:
        holds = {
            number: _rows_of(tensors[number], dim)
            for number, (dim, *more) in ((n, d) for n, d in dims.items() if d)
            if not more and tensors[number].shape[dim] == width and number not in positions
            if _has_a_row_for_each(tensors[number], rows)
        }
        of_width, used = _used(holds, tensors, known, width)
        wanted = rounded_up(used, multiple)
        if 0 < wanted < width:
            kept[width] = wanted
            padding |= of_width
    if not kept:
        return None
    cuts = {
        number: [(dim, kept[size]) for dim in where if (size := tensors[number].shape[dim]) in kept]
        for number, where in dims.items()
    }
    cuts = {number: where for number, where in cuts.items() if where}
    matrices = [(n, t.shape[1]) for n, t in enumerate(tensors) if _leads(t, rows)]
    leads = {n: width for n, width in matrices if n == min(m for m, other in matrices if other == width)}
    others = cuts.keys() - padding.keys() - positions
    hidden = {n: _hidden_by(tensors[n], cuts[n]) for n in others if tensors[n].dim() > 1}
    return Found(kept, leads, cuts, padding, frozenset(positions), hidden)


def _hidden_by(tensor: Tensor, where: Sequence[tuple[int, int]]) -> Any:
    """The value that a mask over pairs of positions has where one that stays would look at one that is cut;
    None if there is more than one value, as in distances.
    """
    *queries, (keys, kept) = where
    tensor = tensor.detach()
    for dim, width in queries:
        tensor = tensor.narrow(dim, 0, width)
    behind = tensor.narrow(keys, kept, tensor.shape[keys] - kept)
    if not behind.numel():
        return None
    first = behind[(0,) * behind.dim()]
    return first.item() if bool((behind == first).all()) else None


def _dims(tensor: Tensor, rows: int, widths: frozenset[int]) -> list[int]:
    """The dimensions as long as sequences are wide; the first is the samples'."""
    shape = tensor.shape
    first = 1 if shape and (shape[0] == rows or (shape[0] == 1 and len(shape) > 1)) else 0
    candidates = range(first, len(shape))
    if tensor.is_floating_point() and len(shape) > 2:  # features come last, and may be as many
        candidates = range(1, 2) if len(shape) == 3 else range(2, len(shape))
    return [dim for dim in candidates if shape[dim] in widths]


def _leads(tensor: Tensor, rows: int) -> bool:
    return is_matrix_of_whole_numbers(tensor) and tensor.shape[0] == rows


def _has_a_row_for_each(tensor: Tensor, rows: int) -> bool:
    return tensor.dim() > 1 and tensor.shape[0] == rows


def _counts_on(tensor: Tensor, number: int, known: Known) -> bool:
    if number in known.positions:
        return True
    asked = is_matrix_of_whole_numbers(tensor) and number not in known.padding
    return asked and tensor.shape[0] > 1 and bool(are_positions(tensor))


def _rows_of(tensor: Tensor, dim: int) -> Tensor:
    """A matrix with the sequences' columns; for features, with a row for each of their entries."""
    return tensor.detach().movedim(dim, -1).flatten(0, -2)


def _used(
    matrices: Mapping[int, Tensor], tensors: Sequence[Tensor], known: Known, width: int
) -> tuple[dict[int, Any], int]:
    """The padding values of these matrices, and how many columns hold anything else."""
    values: dict[int, Any] = {}
    used: Tensor | None = None
    for number, matrix in matrices.items():
        if tensors[number].is_floating_point() and tensors[number].dim() == 3:
            values[number] = 0.0
        else:
            values[number] = known.padding[number] if number in known.padding else matrix[0, -1].item()
        here = (matrix != values[number]).any(0)
        used = here if used is None else used | here.to(used.device)
    if used is None:
        return {}, width
    columns = used.nonzero()
    return values, int(columns[-1]) + 1 if len(columns) else 0


def of_shortest(torch: ModuleType, call: Structure, found: Found, many: int) -> tuple[Structure, Found]:
    """The call with its shortest sequences, so ``many``, in place of all others again and again, and how it
    can be cut to not a column more than the longest of them has.
    """
    tensors = tensors_of(torch, call)
    rows = rows_of(tensors)
    used = {width: torch.zeros(rows, dtype=torch.long) for width in found.widths}
    for number, value in found.padding.items():
        for width in {tensors[number].shape[dim] for dim, _ in found.cuts[number]}:
            columns = _columns_used(torch, tensors[number], width, value)
            used[width] = used[width].maximum(columns.cpu())
    length = torch.stack(list(used.values())).sum(0)
    shortest = length.masked_fill(length == 0, length.max() + 1).argsort()[:many]
    chosen = shortest.repeat(-(-rows // len(shortest)))[:rows]
    kept = {width: max(1, int(columns[shortest].max())) for width, columns in used.items()}
    cuts = {
        number: [(dim, kept[tensors[number].shape[dim]]) for dim, _ in where]
        for number, where in found.cuts.items()
    }

    def repeated(tensor: Tensor) -> Tensor:
        has_rows = tensor.dim() and tensor.shape[0] == rows
        return tensor.index_select(0, chosen.to(tensor.device)) if has_rows else tensor

    call = of_samples(call, rows, chosen.tolist())
    return map_tensors(torch, call, repeated), replace(found, widths=kept, cuts=cuts)


def _columns_used(torch: ModuleType, tensor: Tensor, width: int, padding: Any) -> Tensor:
    """Columns of each sample's sequence up to the last entry that is not padding."""
    dim = tuple(tensor.shape).index(width, 1)
    used = (tensor.detach() != padding).movedim(dim, -1).reshape(tensor.shape[0], -1, width).any(1)
    numbers = torch.arange(1, width + 1, device=tensor.device)
    columns: Tensor = (used * numbers).amax(1)
    return columns


def cut(torch: ModuleType, call: Structure, cuts: Cuts) -> Structure:
    """``call`` with its padding cut off; cut tensors are new ones."""
    numbers = count()

    def without_padding(tensor: Tensor) -> Tensor:
        where = cuts.get(next(numbers), ())
        for dim, width in where:
            tensor = tensor.narrow(dim, 0, width)
        return tensor.contiguous() if where else tensor

    return map_tensors(torch, call, without_padding)


Kinds = tuple[tuple[int, object], ...]
"""For a model's output: each tensor's number of dimensions and its dtype, None for floating point."""


def kinds_of(tensors: Sequence[Tensor]) -> Kinds:
    """Autocast may choose among floating dtypes."""
    return tuple((t.dim(), None if t.is_floating_point() else t.dtype) for t in tensors)


Restored = frozenset[tuple[int, int, int]]
"""For a model's output, by number: a dimension that is a sequence, and the lead of the same width."""


def dims_to_restore(full: Sequence[Tensor], trimmed: Sequence[Tensor], found: Found) -> Restored | None:
    """Which dimensions became narrower with the call; None if the outputs differ in another way."""
    if len(full) != len(trimmed):
        return None
    lead_of = {width: lead for lead, width in found.leads.items()}
    restored = set()
    for number, (a, b) in enumerate(zip(full, trimmed, strict=True)):
        if a.dim() != b.dim() or a.dtype != b.dtype:
            return None
        for dim, (wide, narrow) in enumerate(zip(a.shape, b.shape, strict=True)):
            if wide != narrow and found.widths.get(wide) != narrow:
                return None
            if wide != narrow:
                restored.add((number, dim, lead_of[wide]))
    return frozenset(restored)


def restore(torch: ModuleType, output: Structure, where: Restored, found: Found) -> Structure:
    """``output`` as wide as the script expects it. What was not computed repeats the last column that was,
    and passes no gradient on: so it is a value that the model may well return. Raises ValueError if
    ``output`` is not as narrow as the call was.
    """
    numbers = count()

    def widened(tensor: Tensor) -> Tensor:
        for dim, kept, wide in narrowed(where, next(numbers), found):
            if tensor.shape[dim] != kept:
                raise ValueError(f"dimension {dim} is {tensor.shape[dim]} long, and {kept} was expected")
            shape = list(tensor.shape)
            shape[dim] = wide - kept
            last = tensor.detach().narrow(dim, kept - 1, 1).expand(shape)
            tensor = torch.cat([tensor, last], dim)
        return tensor

    return map_tensors(torch, output, widened)


def narrowed(restored: Restored, number: int, found: Found) -> list[tuple[int, int, int]]:
    """The dimensions of an output that are narrower in this call, each with both lengths."""
    wide = [
        (dim, found.leads[lead]) for n, dim, lead in sorted(restored) if n == number and lead in found.cut
    ]
    return [(dim, found.widths[width], width) for dim, width in wide]
