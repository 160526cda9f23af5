"""Evaluations compared in epochs that are cut short, where whole ones take longer than a tune has.

An epoch of minutes has its evaluation at its end, and nothing that makes it shorter could be compared within
a budget of minutes. So workers are started in which each pass over a loader gives the same share of its
batches (``inside/worker/short_passes.py``), of training and of evaluation alike. What is compared is whole
stretches of that training, as usual. Steps and evaluation have the same shares in them as in a whole epoch,
so a ratio of such stretches is that of whole epochs, if every batch takes as long as the others.

- **What is off.** What happens once an epoch, however long it is - a save, the first batch - weighs more in a
  short one. It is the same under both plans, so it makes a gain look smaller. Techniques for these parts
  are not compared this way, because their gain would look larger. The claim says that epochs were short.
- **Processes that start.** An evaluation whose loader starts worker processes each time pays for that once,
  however long it is. A technique that avoids it would gain too much in a short one, so epochs with such a
  loader are not cut.
- **Shares that do not divide.** A tenth of three batches cannot be given. The share is then one by which the
  smallest loader's batches can be divided; if other loaders still get another share, epochs are not cut.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean, median

from ...inside.job import shortened
from ...inside.techniques.catalog import changing
from ...records.observation import Loader, Step
from ...records.plan import Plan
from ...records.trial import Seen, Trial, Unseen
from ...records.whole_run import ENDLESS_STEPS
from ..trials import Trials
from ..workers.worker import Worker
from .epoch_ends import EpochEnds
from .pairs import Enough
from .quiet import Quiet
from .steps import Rhythm
from .stretches import StretchBench

_EPOCH_SECONDS = 1.5  # that the steps of a short epoch take at least
_LEAST_STEPS = 12
_MOST_SHARE = 0.5  # of an epoch: epochs are not cut if more would be left
_LOOK_EPOCHS = 6  # times what the steps of a short one take: two evaluations, as long as the steps or longer
_LOOK_TIMES = 3.0  # the time given, at most, for such a look: it may save looking for a whole epoch's end
_ALIKE = 0.15  # by which a loader's share may depart from the others'
_IN_IT = {"evaluation", "garbage"}  # what takes longer the more batches there are


class ShortenedBench(StretchBench):
    """``StretchBench`` for epochs cut to ``share``. What it sees of their ends is passed to ``whole``, scaled
    to whole epochs.
    """

    def __init__(
        self,
        trials: Trials,
        rhythm: Rhythm,
        quiet: Quiet | None = None,
        whole: EpochEnds | None = None,
        start_seconds: float = 0.0,
    ) -> None:
        self._told = whole or EpochEnds(rhythm)
        super().__init__(trials, rhythm, quiet, EpochEnds(rhythm), start_seconds)
        self._epoch_steps = rhythm.epoch_steps
        self._loaders: Sequence[Loader] = ()
        self.share = 1.0
        self._cut(self._usual_share())
        self._decided = False

    def may_compare(self, a: Plan, b: Plan) -> bool:
        """Whether a short epoch shows how the two differ, and a whole epoch is long."""
        parts = self._outside(a, b)
        if self.share >= 1 or not parts or not _IN_IT.issuperset(parts):
            return False
        several = self._trials.stage.own_ranks is not None or "processes" in {**a.techniques, **b.techniques}
        return not (several or changing(a) or changing(b) or self._starts_anew)

    def compares(self, a: Plan, b: Plan) -> bool:
        """Whether the two are compared this way: this tune, or an earlier one, has found a place for it."""
        return self._decided and self.may_compare(a, b)

    def decide(self) -> None:
        """From now on, all that may be compared this way is."""
        self._decided = True

    def seek(self, a: Plan, b: Plan, seconds: float) -> Seen | Unseen:
        if self._least_look > _LOOK_TIMES * seconds:
            return Unseen(self._outside(a, b)[0], 0.0)
        found = super().seek(a, b, max(seconds, self._least_look))
        if isinstance(found, Seen) and not self._is_even and not self._starts_anew:
            self._scouts.clear()
            self._sought.clear()
            self._cut(self._dividing_share())
            even = self.share < 1
            found = (
                super().seek(a, b, max(seconds, self._least_look))
                if even
                else Unseen(self._outside(a, b)[0], seconds)
            )
        if isinstance(found, Seen) and not self._is_even:
            found = Unseen(self._outside(a, b)[0], seconds)
        self._decided = self._decided or isinstance(found, Seen)
        return found

    def compare(self, a: Plan, b: Plan, pairs: int, enough: Enough = lambda _: False) -> Trial:
        trial = super().compare(a, b, pairs, enough)
        return replace(trial, shortened=self.share, script_steps=self._told.script_steps)

    # ---- how short
    def _usual_share(self) -> float:
        """The share to begin with; 1 if a whole epoch is short enough, endless, or of unknown length, or left
        before its loader's end: a share of its loader is another share of it.
        """
        epoch, known = self._epoch_steps, self._rhythm.steps_in_all is not None
        if not epoch or epoch >= ENDLESS_STEPS or known or self._rhythm.epoch_seen:
            return 1.0
        each = self._rhythm.cycle_seconds / self._rhythm.cycle
        steps = max(_LEAST_STEPS * self._rhythm.cycle, math.ceil(_EPOCH_SECONDS / max(1e-6, each)))
        return steps / epoch

    def _cut(self, share: float) -> None:
        """Cut epochs to that share from now on."""
        self.share = share if share <= _MOST_SHARE else 1.0
        steps = shortened(self._epoch_steps, self.share) if self._epoch_steps else None
        self._rhythm = replace(self._rhythm, epoch_steps=steps)
        self._ends = _ShortEnds(
            self._rhythm, whole=self._told, share=self.share, epoch=self._epoch_steps or 0
        )

    def _dividing_share(self) -> float:
        """A share that gives a whole number of the smallest loader's batches, at least the current one; 1 if
        their number is not known.
        """
        counts = [batches_of(loader) or 0 for loader in self._loaders]
        least = min(counts, default=0)
        return math.ceil(self.share * least) / least if least else 1.0

    @property
    def _is_even(self) -> bool:
        """Whether all loaders give about the same share of their batches, and no evaluation's loader starts
        processes.
        """
        if self._starts_anew:
            return False
        counts = [batches_of(loader) for loader in self._loaders]
        return all(count and _apart(count, self.share) <= _ALIKE for count in counts)

    @property
    def _starts_anew(self) -> bool:
        """Whether an evaluation's loader starts processes, as far as its loaders are known."""
        return any(_starts_processes(one) for one in self._loaders if not one.training)

    @property
    def _least_look(self) -> float:
        return self._start_seconds + _LOOK_EPOCHS * self._epoch_seconds

    # ---- workers
    def _worker(self, plan: Plan, turn: str = "") -> Worker:
        return self._trials.worker(plan, share_of_epochs=self.share, turn=turn, at_once=2)

    def _few(self, worker: Worker) -> int:
        """Also notes the loaders: this is called before each look for a part of the run."""
        self._loaders = worker.observation().loaders
        if isinstance(self._ends, _ShortEnds):
            self._ends.tells = not any(map(_starts_processes, self._loaders))
        return super()._few(worker)


def batches_of(loader: Loader) -> int | None:
    """The batches of a whole pass over the loader; None if that is not known."""
    if loader.iterable or not loader.samples or not loader.batch_size:
        return None
    return math.ceil(loader.samples / loader.batch_size)


def _starts_processes(loader: Loader) -> bool:
    """Whether each pass over the loader starts worker processes."""
    return bool(loader.workers) and not loader.keeps_workers


def _apart(batches: int, share: float) -> float:
    return abs(shortened(batches, share) / (share * batches) - 1)


@dataclass
class _ShortEnds(EpochEnds):
    """The ends of epochs that are cut to ``share`` of their ``epoch`` steps. They are passed to ``whole``,
    scaled by how much shorter the epochs are, if ``tells``: nothing in them stays as long as in a whole
    epoch. Ends with saves are left out.
    """

    whole: EpochEnds = field(kw_only=True)
    share: float = 1.0
    epoch: int = 0
    tells: bool = True

    def note(self, plan: Plan, steps: Sequence[Step], before: int) -> None:
        super().note(plan, steps, before)
        usual = [step.seconds for step in steps if self.rhythm.regular(step)]
        ends = [step for step in steps[1:] if self.rhythm.restarts < step.restarts]
        if before or not usual or not ends or not self.tells or any(step.saves for step in ends):
            return
        later = ends[1:] or ends  # the first may find caches cold
        each = fmean(max(0.0, step.seconds - step.setup_seconds - median(usual)) for step in later)
        self.whole.note_ends(plan, each / self.share, len(ends), len(ends) * self.epoch)
