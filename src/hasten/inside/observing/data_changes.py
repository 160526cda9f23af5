"""What a script changes of its data sets: some draw other samples for each epoch."""

from __future__ import annotations

from dataclasses import replace

from ...records.observation import Loader
from ..living import Living
from ..samples.visible_state import State, difference, visible_state

_PASSES = 8  # over a data set, at whose beginning it is looked at: some loops begin one in every step


class DataChanges:
    """Data sets as they were: when a loader was made for them, and when a pass over them began."""

    def __init__(self) -> None:
        self._made: Living[State] = Living()  # when the first loader of each was made
        self._at_first: Living[str] = Living()  # what had changed when the first pass over each began
        self._latest: Living[State] = Living()  # when the first batch of the latest pass had come
        self._looked: Living[int] = Living()  # how many passes over each were looked at

    def loader_made(self, dataset: object) -> None:
        if self._made.get(dataset) is None:
            self._made.put(dataset, visible_state(dataset, lenient=True))

    def pass_begins(self, dataset: object) -> None:
        """Called before a sample of the pass is made: making samples may change a data set as well."""
        made = self._made.get(dataset)
        if made is not None and self._at_first.get(dataset) is None:
            self._at_first.put(dataset, difference(made, visible_state(dataset, lenient=True)))

    def told(self, record: Loader, dataset: object) -> Loader:
        """The record of a loader, of which the first batch of a pass has come, with what was changed."""
        looked = self._looked.get(dataset) or 0
        if record.changed or looked == _PASSES:
            return record
        self._looked.put(dataset, looked + 1)
        before, now = self._latest.get(dataset), visible_state(dataset, lenient=True)
        self._latest.put(dataset, now)
        if before is None:
            return replace(record, changed_at_first=self._at_first.get(dataset) or "")
        return replace(record, changed=difference(before, now), changed_at_first="")
