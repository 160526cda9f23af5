"""Which passes over loaders are epochs: a script may begin others in between, or one in every step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


def is_gone() -> None:
    """Returns None, as a reference to what nobody holds any more."""


@dataclass(slots=True)
class Pass:
    """One over a loader. ``of``: which loader, so that a pass that begins anew is known; ``batches``: that it
    will give, if it says so; ``held``: returns its iterator, None once nobody can read from it any more.
    """

    source: int
    of: object
    batches: int | None
    held: Callable[[], object] = is_gone
    given: int = 0
    over: bool = False  # it was asked for a batch and had none left

    @property
    def gave_one_of_many(self) -> bool:
        return self.given == 1 and not self.over and self.batches != 1


class EpochPasses:
    """Knows each pass by its ``source``, and the one that the latest epoch is."""

    def __init__(self) -> None:
        self._passes: dict[int, Pass] = {}
        self._gave: set[int] = set()  # sources of the batches since the last step
        self._epoch: Pass | None = None

    def begins(self, source: int, of: object, batches: int | None, held: Callable[[], object]) -> None:
        self._passes[source] = Pass(source, of, batches, held)

    def gave(self, source: int) -> None:
        one = self._passes.get(source)
        if one is not None:
            one.given += 1
            self._gave.add(source)

    def ends(self, source: int) -> None:
        if source in self._passes:
            self._passes[source].over = True

    def step_ended(self) -> None:
        self._gave.clear()

    def epoch_among(self, sources: list[int]) -> int | None:
        """Which of the passes that have begun since the last step is an epoch, by its place among
        ``sources``: the longest, and of one loader the latest, of those that may have given the step its
        batch: not what gave none, nor what was read out before, if there are others. None if none is.

        None is where the pass of the epoch goes on, as that over many samples without labels does when the
        few with labels begin anew, or one of two loaders that take turns; and none where it gave one batch of
        many, as in loops that take ``next(iter(loader))`` in every step.
        """
        begun = [self._passes.get(source) or Pass(source, None, None) for source in sources]
        may_train = [at for at, one in enumerate(begun) if one.given and not one.over]
        latest = {begun[at].of: at for at in may_train or range(len(begun))}  # in order of their first passes
        if not begun:
            return None
        before = self._epoch
        if before is not None and before.of in latest:
            place, is_epoch = latest[before.of], not before.gave_one_of_many
        else:
            place = max(latest.values(), key=lambda at: begun[at].batches or 0)
            is_epoch = before is None or not self._goes_on(before)
        if is_epoch:
            self._epoch = begun[place]
        self._passes = {one.source: one for one in (self._epoch, *begun) if one is not None}
        return place if is_epoch else None

    def _goes_on(self, one: Pass) -> bool:
        return not one.over and (one.source in self._gave or one.held() is not None)
