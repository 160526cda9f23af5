"""Divides a run's wall clock into parts: each moment belongs to one stretch, and that to one part."""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import get_ident

from ...records.whole_run import WatchedRun
from .batch_counts import BatchCounts
from .epoch_passes import EpochPasses, is_gone
from .stretch import EVALUATION, FIRST, GAP, REST, Stretch, WaitsSeen, loop_among, one_evaluation
from .sums import Epochs, parts_of, sums_of_a_run

clock = time.perf_counter


class Timeline:
    """Follows a run from the thread that trains. ``began``: when the script started, by ``clock``.

    Evaluations are recognised by forward passes in evaluation mode that no backward pass follows, and by a
    whole pass over a loader in which nothing is trained. Many scripts forget ``eval()``: so forward passes
    without gradients between two epochs count, too. What looks like a rollout is part of a step. While a
    worker stands between two steps, no time counts. A usual step costs about two microseconds.
    """

    def __init__(self, began: float, place: Callable[[], str] = str) -> None:
        """``place`` returns the line of the script that led here."""
        self._began = self._since = began
        self.place = place
        self.inside = ""  # the part that is being taken out of others
        self._thread = get_ident()
        self._sums = sums_of_a_run()
        self._open, self._where = GAP, ""  # the stretch that is open, and what is known of it
        self._batches_said: int | None = None
        self._source, self._passes = 0, EpochPasses()
        self._trained = False
        self._carved = 0.0  # seconds of it that belong to other parts
        self._logs: tuple[float, float] | None = None  # since when a record is made, and what was carved then
        self.waits: WaitsSeen = {}  # in it
        self.on_waits: Callable[[WaitsSeen], None] = lambda _: None  # what turned out to be in steps
        self._fetching = False  # a batch is waited for
        self._stretches: list[Stretch] = []  # since the last step
        self._standing, self._stood, self._unusual = False, 0.0, True  # more among them than a step
        self._mode = True  # of the module in the last forward pass with gradients
        self._trains_in_evaluation_mode: bool | None = None
        self._batches = BatchCounts()
        self._exhausted = False  # the training's loader, since the last step
        self._between_epochs = False  # it was, and no other has begun
        self._epochs = Epochs(self._sums)
        self._rollouts = 0

    # ---- events
    def loader_begins(self, batches: int | None) -> None:
        """``batches``: that it will give, if it says so."""
        if not self._away():
            self._turn(FIRST)
            self._between_epochs = False
            self._where, self._batches_said = self.place(), batches
            self._batches.loader_begins(bool(self._sums["steps"].count))
            self._unusual = True

    def pass_begins(self, source: int, of: object, held: Callable[[], object] = is_gone) -> None:
        """``source``: of its batches; ``of``: the same for all passes over a loader; ``held``: see Pass."""
        if not self._away():
            self._source = source
            self._passes.begins(source, of, self._batches_said, held)

    def batch_waited_for(self) -> None:
        if self._away():
            return
        self._fetching = True
        if self._open is GAP:
            self._turn(REST)

    def batch_came(self, samples: int, source: int = 0) -> None:
        """``source``: the pass over a loader that it came from."""
        if self._away():
            return
        self._fetching = False
        if self._open is FIRST:
            self._turn(REST)
        self._batches.came(samples, source)
        self._passes.gave(source)

    def loader_exhausted(self, source: int = 0) -> None:
        """A loader was asked for a batch and had none left."""
        if self._away():
            return
        self._fetching = False
        self._passes.ends(source)
        self._turn(GAP)
        start = loop_among(self._stretches, source)
        loop = self._stretches[start] if start is not None else None
        read = bool(self._batches.any_came and self._sums["steps"].count)
        if start is None or loop is None or loop.over or (loop.kind is FIRST and not read):
            self._exhausted = self._between_epochs = True
        else:
            self._is_evaluation(start)
            self._stretches[-1].over = True

    def forward_begins(self, recording: bool) -> None:
        """The forward pass of a trained module begins. ``recording``: with gradients."""
        if (self._open is GAP or (self._open is REST and not recording)) and not self._away():
            self._turn(REST)

    def forward_ended(self, recording: bool, training_mode: bool, observations: int = 0) -> None:
        """``observations``: how many went in, where they may be an environment's."""
        if self._away():
            return
        if recording:
            self._mode = training_mode
        if recording and (training_mode or self._trains_in_evaluation_mode is not False):
            return
        if training_mode and not self._between_epochs:  # a teacher's, or a rollout's
            return
        start = loop_among(self._stretches)
        self._turn(GAP)
        self._is_evaluation(len(self._stretches) - 1 if start is None else start, recording)
        latest = self._stretches[-1]
        if start is None or latest.passes:  # no loader began for it
            latest.passes, latest.most = latest.passes + 1, max(latest.most, observations)

    def backward_begins(self) -> None:
        """What came before it was not an evaluation."""
        if self._away():
            return
        if not self._mode:
            self._trains_in_evaluation_mode = True
            for stretch in self._stretches:
                if stretch.gradients:
                    stretch.kind = REST
        elif self._trains_in_evaluation_mode is None:
            self._trains_in_evaluation_mode = False
        if self._open is GAP:
            self._turn(REST)
        self._trained = True

    def step_ended(self, inputs: int = 0) -> None:
        """The worker waits, until ``goes_on``. The thread of the first step is the one that trains.
        ``inputs``: samples of the step, if no loader gave them.
        """
        steps = self._sums["steps"]
        if self._standing or (steps.count and get_ident() != self._thread):
            return
        self.inside = ""
        self._turn(GAP)
        if self._unusual:
            self._thread = get_ident()
            self._find_rollouts(inputs)
            self._settle()
        else:
            for stretch in self._stretches:
                self._is_of_steps(stretch)
        steps.count += 1
        self._batches.step_ended()
        self._passes.step_ended()
        self._stretches.clear()
        self._unusual = self._exhausted = self._between_epochs = False
        self._standing = True

    def goes_on(self) -> None:
        if self._standing and get_ident() == self._thread:
            now = clock()
            self._stood += now - self._since
            self._since, self._carved, self._standing = now, 0.0, False

    # ---- parts that lie within others
    def enter(self, part: str, logged: bool = False) -> tuple[float, float, str] | None:
        """The script begins with something that belongs to ``part``; ``logged``: when ``logs`` was told. What
        comes back is for ``leave``; None if it does not count.
        """
        if self.inside == part or self._standing or get_ident() != self._thread:
            return None
        began, before = clock(), self._carved
        if logged and self._logs is not None and self._logs[0] > self._since:
            began, before = self._logs
        entered = began, before, self.inside
        self.inside, self._carved, self._logs = part, self._carved - before, None
        return entered

    def logs(self) -> None:
        """A line is about to be logged."""
        if not self.inside and not self._standing and get_ident() == self._thread:
            self._logs = clock(), self._carved

    def leave(self, part: str, entered: tuple[float, float, str], where: str = "", folder: str = "") -> None:
        began, before, outside = entered
        if self.inside != part:
            return  # a step has ended meanwhile
        seconds = clock() - began
        self._sums[part].add(max(0.0, seconds - self._carved), where, folder=folder)
        self._carved, self.inside = before + seconds, outside

    def collected(self, seconds: float) -> None:
        """Python's collector has just ended. Before the first step that is part of the start."""
        if self._sums["steps"].count and not self._standing and get_ident() == self._thread:
            self._sums["garbage"].add(seconds)
            self._carved += seconds

    def takes_waits(self) -> bool:
        """Whether the script, which waited, is not in a data set, and may be in a step."""
        return not (self._fetching or self._away())

    # ---- results
    def watched(self, ended: bool) -> WatchedRun:
        """The run until now; ``ended``: by itself."""
        if not self._standing:
            self._settle_the_end()
        seconds = self._since - self._began - self._stood
        known = sum(one.seconds for name, one in self._sums.items() if name != "other")
        self._sums["other"].seconds = max(0.0, seconds - known)
        epochs, parts = self._epochs, parts_of(self._sums)
        steps, was_seen = epochs.length(self._batches.steps_of(epochs.batches))
        return WatchedRun(
            seconds, ended, parts, epochs.seen, steps, epochs.whole,
            rollouts=self._rollouts, epoch_seen=was_seen,
        )  # fmt: skip

    # ---- inside
    def _away(self) -> bool:
        return self._standing or bool(self.inside) or get_ident() != self._thread

    def _turn(self, kind: str) -> None:
        """The open stretch ends, and one of ``kind`` begins."""
        now = clock()
        seconds = now - self._since - self._carved
        known = self._where, self._batches_said, self._source
        self._stretches.append(Stretch(self._open, max(0.0, seconds), *known, trained=self._trained))
        if self.waits:
            self._stretches[-1].waits, self.waits = self.waits, {}
        self._open, self._since, self._carved = kind, now, 0.0
        self._where, self._batches_said, self._source, self._trained = "", None, 0, False

    def _is_evaluation(self, start: int, gradients: bool = False) -> None:
        """Take all stretches from ``start`` on for one evaluation."""
        taken = self._stretches[start:]
        first = taken[0]
        if first.kind not in (FIRST, EVALUATION):  # it reads from no loader that began for it
            self._batches.forget()
        where = first.where or self.place()
        self._stretches[start:] = [one_evaluation(taken, where, self._batches.samples, gradients)]
        self._batches.evaluated()
        self._unusual = True

    def _is_of_steps(self, stretch: Stretch) -> None:
        self._sums["steps"].seconds += stretch.seconds
        if stretch.waits:
            self.on_waits(stretch.waits)

    def _find_rollouts(self, trained_on: int) -> None:
        for stretch in self._stretches:
            if stretch.kind is EVALUATION and stretch.is_rollout(trained_on):
                stretch.kind = REST
                self._rollouts += 1

    def _settle(self) -> None:
        """A step has ended: assign what came since the last one to its parts."""
        sums, never = self._sums, not self._sums["steps"].count
        firsts = [at for at, stretch in enumerate(self._stretches) if stretch.kind is FIRST]
        epoch = self._passes.epoch_among([self._stretches[at].source for at in firsts])
        turned = firsts[epoch] if epoch is not None else -1  # where an epoch began
        lead = 0.0  # time of the epoch's start, or the run's
        for at, stretch in enumerate(self._stretches):
            if at == turned:
                sums["start" if never else "epoch turns"].add(lead)
                self._epochs.one_begins(stretch.batches)
            if stretch.kind is EVALUATION:
                sums["evaluation"].add(stretch.seconds, stretch.where, stretch.samples)
            elif stretch.trained:
                self._is_of_steps(stretch)
            elif at < turned and (never or stretch.kind is not FIRST):
                lead += stretch.seconds
            elif at == turned:
                sums["first batches"].add(stretch.seconds, stretch.where)
            elif stretch.kind is FIRST and turned >= 0:  # of another loader, or one that is not read
                sums["first batches"].seconds += stretch.seconds
            elif never and turned < 0 and stretch.kind is GAP:
                sums["start"].add(stretch.seconds)
            elif stretch.kind is GAP and at and self._stretches[at - 1].kind is EVALUATION:
                sums["evaluation"].seconds += stretch.seconds
            else:
                self._is_of_steps(stretch)

    def _settle_the_end(self) -> None:
        """Give what came after the last step to parts: no step followed."""
        self._turn(GAP)
        sums, rest = self._sums, 0.0
        for stretch in self._stretches:
            if stretch.kind is EVALUATION:
                sums["evaluation"].add(stretch.seconds, stretch.where, stretch.samples)
            elif stretch.trained:
                self._is_of_steps(stretch)
            else:
                rest += stretch.seconds
        self._stretches.clear()
        if self._exhausted:
            self._epochs.one_ends()
        sums["tail" if sums["steps"].count else "start"].add(rest)
