"""Python's garbage collector with old objects frozen and without full collections, and what those would have
been.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from ...process import collector

OLD = 2  # the generation of old objects
_NEVER = 2**31 - 1
_COUNTED_EACH = 4


class FrozenCollector:
    """``put_off``: full collections that Python would have made; ``objects``: that the last would have looked
    at; ``collected_at`` (by ``time.monotonic``) and ``seconds``: the last collection of ours.

    Python makes one after this many collections of the middle generation, if a quarter more objects have
    become old since the last. How many do is counted at every fourth, which costs some 50 us.
    """

    def __init__(self) -> None:
        self.in_force = False
        self.put_off = self.objects = 0
        self.collected_at = self.seconds = 0.0
        self._thresholds = collector.get_threshold()
        self._frozen = 0
        self._middle = self._becoming_old = self._became_old = 0

    @property
    def thresholds(self) -> tuple[int, int, int]:
        """The thresholds as the script sees them."""
        return self._thresholds if self.in_force else collector.get_threshold()

    def take_over(self) -> None:
        """Collect everything once, freeze it, and let no full collection come."""
        self._thresholds = collector.get_threshold()
        self.collect()
        collector.freeze()
        young, middle, _ = self._thresholds
        collector.set_threshold(young, middle, _NEVER)
        self.in_force = True
        self.objects = self._frozen = collector.get_freeze_count()
        gc.callbacks.append(self._collected)

    def give_back(self) -> None:
        """Restore the collector."""
        if not self.in_force:
            return
        self.in_force = False
        with suppress(ValueError):  # the script may have cleared them
            gc.callbacks.remove(self._collected)
        collector.unfreeze()
        collector.set_threshold(*self._thresholds)

    @contextmanager
    def thawed(self) -> Iterator[None]:
        """A context as if nothing were frozen."""
        frozen = self.in_force
        if frozen:
            collector.unfreeze()
        try:
            yield
        finally:
            if frozen and self.in_force:
                collector.freeze()

    def collect(self) -> None:
        """Collect everything that is not frozen."""
        began = time.monotonic()
        collector.collect()
        self.collected_at = time.monotonic()
        self.seconds = self.collected_at - began

    def _collected(self, phase: str, info: dict[str, int]) -> None:
        if info["generation"] == OLD and phase == "stop":
            self._middle = self._became_old = 0
        if info["generation"] != OLD - 1:
            return
        counts = self._middle % _COUNTED_EACH == 0
        if phase == "start":
            if counts:
                self._becoming_old = sum(len(collector.get_objects(generation=young)) for young in range(OLD))
            return
        if counts:
            self._becoming_old = max(0, self._becoming_old - info["collected"])
        self._middle += 1
        self._became_old += self._becoming_old
        if self._middle > self._thresholds[OLD] and self._became_old > self.objects / 4:
            self.put_off += 1
            self.objects = self._frozen + len(collector.get_objects(generation=OLD))
            self._middle = self._became_old = 0
