"""In a rehearsal, epochs that end after a few batches: what a script does between epochs is seen soon."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ..internals.loaders import batches_given
from ..job import EPOCH, SHORT

if TYPE_CHECKING:
    from ..internals.loaders import LoaderIterator

_BATCHES = 3


class ShortEpochs:
    """``folder``: the rehearsal's, where the first epoch that ends by itself leaves the file EPOCH."""

    def __init__(self, folder: str) -> None:
        self._short = Path(folder, SHORT).exists()
        self._file = Path(folder, EPOCH)
        self._steps_before = 0  # optimizer steps before this epoch

    def over(self, iterator: LoaderIterator, steps: int) -> bool:
        """Whether the epoch ends here: after a few batches, and not before an optimizer's step. ``steps``:
        so many there were.
        """
        if not batches_given(iterator):
            self._steps_before = steps
        return self._short and batches_given(iterator) >= _BATCHES and steps > self._steps_before

    def ended(self) -> None:
        self._file.touch()
