"""What the samples of a cache are made from: a data set, whole or up to its first random transform."""

from __future__ import annotations

from typing import Any

from ..living import reference
from .sampling_proof import chain, states_of
from .transform_prefix import Divided


class CacheSource:
    """``divided``: what is kept is unfinished, and is completed to a sample each time it is requested."""

    def __init__(self, dataset: object, divided: Divided | None = None) -> None:
        self._refer = reference(dataset)
        self._divided = divided

    @property
    def dataset(self) -> Any:
        """Only valid while the script has it."""
        return self._refer()

    @property
    def is_divided(self) -> bool:
        return self._divided is not None

    @property
    def is_intact(self) -> bool:
        """Whether the data set still has the transforms that were divided."""
        return self._divided is None or self._divided.is_intact

    @property
    def prefix(self) -> int | None:
        """So many transforms were called on what is kept; None: samples are whole."""
        return None if self._divided is None else self._divided.count

    @property
    def parts(self) -> list[object]:
        """The objects that samples are made from."""
        return list(chain(self.dataset)) if self._divided is None else self._divided.parts

    @property
    def made_from(self) -> object:
        return self.dataset if self._divided is None else self._divided.first_part

    @property
    def remark(self) -> str:
        """How samples are kept, if that is worth saying."""
        return "" if self._divided is None else str(self._divided)

    def state(self) -> object:
        """A fingerprint of what samples are made from."""
        return states_of(self.dataset) if self._divided is None else self._divided.state()

    def make(self, index: int) -> Any:
        """What is kept of a sample."""
        return self.dataset[index] if self._divided is None else self._divided.make(index)

    def finish(self, made: object) -> object:
        """The sample."""
        return made if self._divided is None else self._divided.finish(made)
