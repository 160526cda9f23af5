"""NumPy has no bfloat16: an array of what a lowered forward pass computes is of float32, as without lowering.

Without that a model that looks at its own tensors by ``.numpy()`` would fail.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...internals.compiler import left_alone
from ...seams import Call
from ...training import Training

if TYPE_CHECKING:
    from torch import Tensor, dtype

_NAME = "arrays of lowered tensors"


class LoweredArrays:
    """One for a training, and in place from the first time that a technique needs it. Nothing else becomes
    another: of bfloat16, ``numpy`` raises.
    """

    def __init__(self, training: Training, reduced: dtype) -> None:
        self._reduced = reduced
        self.users: set[str] = set()  # techniques that are on
        training.seams.replace(training.torch.Tensor, "numpy", self._around)

    def _around(self, original: Call) -> Call:
        def numpy(self: Tensor, *args: object, **kwargs: object) -> object:
            if arrays.users and self.dtype == arrays._reduced:
                self = self.float()
            return original(self, *args, **kwargs)

        arrays = self
        return left_alone(numpy)  # compiled code fetches its own arrays by it


def allow_arrays(training: Training, reduced: dtype, technique: str) -> None:
    """From now on, while one of the techniques that ask for it is on."""
    if _NAME not in training.kept:
        training.kept[_NAME] = LoweredArrays(training, reduced)
    training.kept[_NAME].users.add(technique)


def need_no_arrays(training: Training, technique: str) -> None:
    if _NAME in training.kept:
        training.kept[_NAME].users.discard(technique)
