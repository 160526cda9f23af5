"""How many batches a step takes, and an evaluation."""

from __future__ import annotations


class BatchCounts:
    """Gets every batch and its ``source``, the pass over a loader that it came from.

    Loaders that are read in parallel each give a step their own batch: what counts is how many batches of one
    of them a step takes.
    """

    def __init__(self) -> None:
        self.samples = 0  # since a loader began, or an evaluation
        self._since: dict[int, int] = {}  # batches, like ``samples``
        self._step: dict[int, int] = {}  # of the step
        self._trained = 0  # of all steps
        self._taking = 0  # steps that took any

    def came(self, samples: int, source: int) -> None:
        """A batch of so many ``samples`` has come from ``source``."""
        self.samples += samples
        self._since[source] = self._since.get(source, 0) + 1
        self._step[source] = self._step.get(source, 0) + 1

    def loader_begins(self, trained: bool) -> None:
        """``trained``: whether any step was taken."""
        self.forget()
        if not trained:
            self._step.clear()

    @property
    def any_came(self) -> bool:
        return bool(self._since)

    def forget(self) -> None:
        """What came so far does not belong to an evaluation."""
        self.samples = 0
        self._since.clear()

    def evaluated(self) -> None:
        """What came belongs to an evaluation, not to a step."""
        for source, batches in self._since.items():
            self._step[source] = self._step.get(source, 0) - batches
        self.forget()

    def step_ended(self) -> None:
        if self._step:
            self._trained += max(0, *self._step.values())
            self._taking += 1
            self._step.clear()

    def steps_of(self, batches: int | None, steps: int) -> int | None:
        """Steps of a pass over ``batches``, if ``steps`` took those counted. Not known where one of several
        steps took all that came: nobody can tell yet how many steps a batch is used for.
        """
        if batches is None or not self._trained or (self._taking == 1 and steps > 1):
            return None
        return max(1, round(batches * steps / self._trained))
