"""A data set whose samples come from a store, in the training process."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ..living import Reference
from .sampling_proof import chain, states_of
from .store_counts import Counts
from .store_files import Store
from .stored_fetch import Handed, Reader
from .transform_prefix import Divided
from .visible_state import State, difference, visible_state


@dataclass
class Served:
    """``refer``: to the data set, which the script may drop. ``asked``: samples that were to be made, as far
    as possible; ``stale``: why the store is not read any more; ``paid``: seconds this process spent making
    samples for it; ``before``: what was counted when counting began.
    """

    refer: Reference
    store: Store
    divided: Divided | None
    counts: Counts
    reader: Reader
    remark: str = ""
    asked: set[int] = field(default_factory=set)
    stale: str = ""
    paid: float = 0.0
    before: tuple[int, int, int] = (0, 0, 0)
    cheap_state: object = None
    state: State = field(default_factory=dict)

    @property
    def dataset(self) -> Any:
        return self.refer()

    @property
    def parts(self) -> list[object]:
        """The objects that kept samples are made from; setting an attribute of one makes them stale."""
        return list(chain(self.dataset)) if self.divided is None else self.divided.parts

    @property
    def counted(self) -> tuple[int, int, int]:
        """Samples that came from the store, that were made, that were compared."""
        (hits, made, checked), before = self.counts.total(), self.before
        return hits - before[0], made - before[1], checked - before[2]

    def look(self) -> None:
        """Remember its current state as right."""
        self.cheap_state, self.state = self._cheap_state(), self._state()

    def difference(self) -> str:
        """What has changed; "" for nothing."""
        if self._cheap_state() != self.cheap_state:
            return type(self.dataset).__name__
        return difference(self.state, self._state())

    def _cheap_state(self) -> object:
        return states_of(self.dataset) if self.divided is None else self.divided.state()

    def _state(self) -> State:
        return visible_state(self.dataset if self.divided is None else self.divided.first_part, lenient=True)

    def handed(self) -> Handed:
        """What a worker process about to start needs."""
        return Handed(self.store.path, self.store.header.prefix, self.counts)
