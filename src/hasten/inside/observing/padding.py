"""How much of a model's input is padding: columns that are padding in every sequence of a batch. Rounding a
width up to a multiple of 8 does not count: scripts pad that way on purpose, and ``pad_trim`` keeps it.

A sequence is a row of a matrix of integers: token ids, or a mask of zeros and ones. Its padding is what
repeats the last value to the end, in all rows. Only the first passes are examined, at about 50 us each,
without waiting for a GPU.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from .batches import tensors_in

if TYPE_CHECKING:
    from torch import Tensor

LEAST_WIDTH = 8  # of a matrix whose rows may be sequences
MULTIPLE = 8  # widths without padding are rounded up to this
_LOOKS = 24


class PaddingSeen:
    """Examines the inputs of the first forward passes that record gradients."""

    def __init__(self) -> None:
        self._left = _LOOKS
        self._looks = 0
        self._seen: list[tuple[int, list[Tensor]]] = []  # columns; of each matrix, how many are padding

    @property
    def wants_more(self) -> bool:
        return self._left > 0

    def look(self, inputs: object) -> None:
        """``inputs``: what a model is called with. Stops at numbers that torch cannot compare."""
        self._left -= 1
        self._looks += 1
        try:
            self._seen += _tails_in([tensor for tensor in tensors_in(inputs) if is_in_memory(tensor)])
        except Exception:  # whatever a script's own kind of tensor raises
            self._left = 0

    def share(self) -> float | None:
        """The share of all columns that is padding, 0 to 1; 0 if no sequence went in, None if not checked."""
        if not self._looks:
            return None
        used = [(width - min(int(tail) for tail in tails), width) for width, tails in self._seen]
        kept = [(min(width, rounded_up(columns, MULTIPLE)), width) for columns, width in used if columns]
        return 1 - sum(columns for columns, _ in kept) / sum(width for _, width in kept) if kept else 0.0


def rounded_up(columns: int, multiple: int) -> int:
    """The smallest multiple that holds this many columns."""
    return -(-columns // multiple) * multiple


def _tails_in(tensors: Sequence[Tensor]) -> list[tuple[int, list[Tensor]]]:
    """For each width of sequences, how many columns are padding in each matrix."""
    rows, found = rows_of(tensors), []
    for width in widths_of(tensors, rows):
        of_width = [t for t in tensors if t.dim() > 1 and t.shape[:2] == (rows, width)]
        tails = [_tail(t) for t in of_width if is_matrix_of_whole_numbers(t)]
        tails += [_tail_of_features(t) for t in of_width if t.dim() == 3 and t.is_floating_point()]
        found.append((width, tails))
    return found


def is_in_memory(tensor: Tensor) -> bool:
    """Whether it is an array of elements: not sparse, nested or empty."""
    return not (tensor.is_nested or tensor.is_meta) and str(tensor.layout) == "torch.strided"


def is_matrix_of_whole_numbers(tensor: Tensor) -> bool:
    """Whether its rows may be sequences of ids, or masks."""
    return (
        tensor.dim() == 2
        and not (tensor.is_floating_point() or tensor.is_complex())
        and tensor.shape[0] > 0
        and tensor.shape[1] >= LEAST_WIDTH
    )


def rows_of(tensors: Sequence[Tensor]) -> int:
    """How many samples there are: the rows of a matrix of ids, or of a mask. Square matrices say which
    positions see which, and a single row serves all samples, if there is another matrix. 0 if there is no
    matrix.
    """
    matrices = [tensor for tensor in tensors if is_matrix_of_whole_numbers(tensor)]
    if not matrices:
        return 0
    first = min(matrices, key=lambda m: (m.shape[0] == m.shape[1], m.shape[0] == 1, m.element_size() == 1))
    return int(first.shape[0])


def widths_of(tensors: Sequence[Tensor], rows: int) -> frozenset[int]:
    """The numbers of columns of those matrices that have a row for each of this many samples."""
    matrices = [tensor for tensor in tensors if is_matrix_of_whole_numbers(tensor)]
    return frozenset(matrix.shape[1] for matrix in matrices if matrix.shape[0] == rows)


def are_positions(matrix: Tensor) -> Tensor:
    """Whether its rows are equal and count up, as a scalar: such positions have no padding."""
    counting = (matrix[0, 1:] > matrix[0, :-1]).all()
    return counting & (matrix == matrix[:1]).all() & (matrix.shape[0] > 1)


def _tail(matrix: Tensor) -> Tensor:
    """How many last columns hold only the matrix's last value, as a scalar."""
    same = (matrix == matrix[:1, -1:]).all(0)
    return same.flip(0).long().cumprod(0).sum().masked_fill(are_positions(matrix), matrix.shape[1])


def _tail_of_features(features: Tensor) -> Tensor:
    """The same if a sequence's entries are vectors, and padding is zeros."""
    return (features == 0).all(-1).all(0).flip(0).long().cumprod(0).sum()
