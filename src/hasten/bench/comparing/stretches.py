"""Plans that differ outside of steps, compared over whole stretches of a run.

Shortening an evaluation, an epoch's turn or saving gains nothing in regular steps, and ``pairs`` and ``live``
only look at those. Here everything counts. A stretch runs from the end of one step that contains the part to
the end of the next such step: usually a whole epoch, with its steps, evaluation, saves, output, garbage
collections and the wait for first batches. The compared value is its seconds per trained sample.

- **Why not the part alone.** Moving work is no gain. A save in the background slows the steps that follow; a
  delayed garbage collection comes later; workers that stay alive take memory. All of that happens within the
  stretch and is paid there, so no technique can win by moving its cost.
- **Why from end to end.** Work that one save leaves behind falls into the next stretch. The first stretch
  begins after such a save: what that leaves comes in, and what the last one leaves goes out. Only the search,
  which claims nothing, begins a long stretch earlier if it is about evaluation or the turn of an epoch: this
  halves the time of a comparison.
- **Why in fresh processes, even for what could be switched.** Within one process, one plan would pay for work
  that the other leaves behind. In a pair, one trains while the other is stopped, as in ``pairs``, and the
  first one changes from pair to pair.
- **Why at the same places.** Epochs differ: some are evaluated, some are saved. So a plain process finds once
  where stretches begin and end, as numbers of steps; both processes of each pair train exactly those. So
  nothing waits for a garbage collection that a plan prevents; and a plan under which an evaluation occurs
  less often than in plain training does less, and fails.
- **What it cannot see.** What occurs once in a run, or only at its end, is never between two ends: it is not
  compared. Nor is what does not occur twice in the available time.

What acts between steps only is searched for with the same steps in both processes (``between_steps``).
Regular steps within the stretches are timed, too (``Trial.step_log_ratios``), to distinguish what a plan
gains in steps from what it gains elsewhere.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from statistics import median

from ...errors import WorkerError
from ...inside.techniques.catalog import changing, starts_after
from ...records.observation import Step
from ...records.plan import BASELINE, Plan
from ...records.trial import Seen, Trial, Unseen
from ..base import from_second, outside_steps
from ..trials import Trials
from ..workers.ending import BudgetOver, PlanRefused, ScriptEnded, ScriptOver
from ..workers.process_start import START_SECONDS
from ..workers.worker import Worker
from .between_steps import act_between_steps, with_steps_of_both
from .blocks import Block, measure
from .epoch_ends import EpochEnds
from .pair import Pair
from .pair_costs import PairCosts, seconds_trained
from .pairs import Enough, MeasureFailed, PairsBench
from .quiet import Quiet
from .steps import STEPS, Rhythm, seconds_beyond_steps, spoilt
from .stretch_course import Course, Parts, are_beyond_steps, course_of, done_less, unseen

_AT_ONCE_SECONDS = 0.5  # between two looks at what occurred
_LATEST_STEPS = 5  # steps whose median says how slow they are
_PATIENCE = 20  # times a plain stretch, until a process counts as silent
_ENDS = 2  # of epochs, that must occur in the time available
LEAST_PAIRS = 2  # of the search's comparisons: enough to see large gains


class StretchBench(PairsBench):
    """Like ``PairsBench``, for whole stretches. ``start_seconds``: how long a worker takes to its first step,
    as far as known.
    """

    def __init__(
        self,
        trials: Trials,
        rhythm: Rhythm,
        quiet: Quiet | None = None,
        ends: EpochEnds | None = None,
        start_seconds: float = 0.0,
    ) -> None:
        super().__init__(trials, rhythm, quiet, ends)
        self._start_seconds = start_seconds
        self._scouts: dict[Plan, list[Step]] = {}  # steps, by the techniques that change the training
        self._sought: dict[Plan, float] = {}  # for how many seconds at most, if that was too short
        self._foreseen: dict[str, float] = {}  # seconds a process needs to see this part
        self._compared = BASELINE, BASELINE
        self._parts: Parts = ()
        self._courses: dict[Plan, Course] = {}  # of the plans that are compared
        self._trained: dict[Plan, float] = {}  # seconds, in the latest pair
        self.costs = PairCosts(start_seconds)
        self._step_logs: list[float | None] = []
        self.early = True  # whether long stretches may begin early: only if nothing is claimed

    # ---- where stretches begin and end
    def seek(self, a: Plan, b: Plan, seconds: float) -> Seen | Unseen:
        """Find where to compare the two, in at most ``seconds`` for each kind of training. Starts nothing if
        a process is known to only start in that time, or an epoch to take far longer.
        """
        parts = self._outside(a, b)
        for plan in {changing(a), changing(b)}:
            failure = ""
            hopeless = self._start_seconds + _ENDS * self._epoch_seconds >= seconds
            if self._course(a, b, plan) is None and self._sought.get(plan, 0.0) < seconds and not hopeless:
                failure = self._scout(a, b, plan, seconds)
            if failure or self._course(a, b, plan) is None:
                return self._unseen(parts, plan, 0.0 if hopeless else seconds, failure)
        return self._seen(a, b)

    def seconds_of_pair(self, a: Plan, b: Plan, early: bool) -> float | None:
        """The time of a pair, without set-ups, as predicted by earlier pairs; None if it is not known where
        to compare the two. If one of them trains differently and only the other was watched, like that one;
        if neither was seen long enough, the time that would have taken.
        """
        courses = {plan: self._course(a, b, changing(plan), early) for plan in (a, b)}
        seen = [course for course in courses.values() if course is not None]
        usual = (
            seen[0].process_seconds
            if seen
            else max(self._foreseen.get(part, 0.0) for part in self._outside(a, b))
        )
        if not usual:
            return None
        steps = max((course.cuts[-1] for course in seen), default=0)
        plainly = {plan: course.process_seconds if course else usual for plan, course in courses.items()}
        return self.costs.foreseen(plainly, steps * self._rhythm.cycle_seconds / self._rhythm.cycle)

    def _outside(self, a: Plan, b: Plan) -> Parts:
        return outside_steps(a, b, self._rhythm.within_steps)

    def _course(self, a: Plan, b: Plan, training: Plan, early: bool | None = None) -> Course | None:
        """The course for comparing the two, in this ``training``."""
        return course_of(
            self._scouts.get(training, []),
            self._outside(a, b),
            self._rhythm,
            late=max(starts_after(a), starts_after(b)),
            early=(self.early if early is None else early) and not from_second(a, b),
            last=training in self._sought,
        )

    def _scout(self, a: Plan, b: Plan, training: Plan, seconds: float) -> str:
        """Train until a course is known. Returns why it failed, "" if it did not."""
        clock = self._trials.limit.clock
        until = clock() + seconds
        ended: ScriptEnded | None = None
        try:
            self._trials.rehearse(training)
            with self._trials.limit.ending(seconds), self._worker(training) as worker:
                try:
                    worker.wait_started()
                    while clock() < until:
                        worker.steps(self._few(worker), timeout=START_SECONDS)
                        self._scouts[training] = list(worker.history)
                        if self._course(a, b, training, early=False) is not None:
                            return ""
                except ScriptOver as over:
                    if over.ended.how != "completed":
                        return str(over)
                    self._scouts[training] = [*worker.history, *over.ended.steps]
                    seconds = math.inf  # more time would show no more
                    ended = over.ended
                finally:
                    if not training:
                        self._note(self._scouts[training] if ended else worker.history, ended)
        except BudgetOver:
            pass
        except (PlanRefused, WorkerError) as error:
            return str(error)
        self._sought[training] = seconds
        return ""

    def _note(self, steps: Sequence[Step], ended: ScriptEnded | None) -> None:
        """``ended``: if the script reached its end."""
        self._ends.note(BASELINE, steps, 0)
        if ended is not None:
            self._ends.script_ended(ended.steps_in_all)
            self._ends.note_tail(BASELINE, ended.rest)

    def _few(self, worker: Worker) -> int:
        """Steps until the next look."""
        usual = median(step.seconds for step in worker.history[-_LATEST_STEPS:])
        return max(1, int(_AT_ONCE_SECONDS / max(1e-6, usual)))

    @property
    def _epoch_seconds(self) -> float:
        """Seconds of an epoch's regular steps; 0 if their number is not known."""
        return (self._rhythm.epoch_steps or 0) * self._rhythm.cycle_seconds / self._rhythm.cycle

    def _seen(self, a: Plan, b: Plan) -> Seen:
        courses = (self._course(a, b, changing(a), early) for early in (False, True))
        course = next((one for one in courses if one is not None), None)
        assert course is not None, "it was just looked for"
        steps = self._scouts[changing(a)][course.cuts[0] : course.cuts[-1]]
        each = course.seconds / len(course.lengths)
        beyond = seconds_beyond_steps(steps, self._rhythm)
        if beyond is None or not are_beyond_steps(self._outside(a, b), [steps], self._rhythm):
            return Seen(each)
        return Seen(each, beyond / course.seconds)

    def _unseen(self, parts: Parts, training: Plan, seconds: float, failure: str) -> Unseen:
        found, until = unseen(self._scouts.get(training, []), parts, self._rhythm, self._epoch_seconds)
        found = replace(found, seconds=seconds, ended=self._sought.get(training) == math.inf, failure=failure)
        if not until or found.ended or failure:
            return found
        self._foreseen[found.part] = until
        return replace(found, needed=self._start_seconds + until)

    # ---- comparing
    def compare(self, a: Plan, b: Plan, pairs: int, enough: Enough = lambda _: False) -> Trial:
        self._parts, self._step_logs, self._compared = self._outside(a, b), [], (a, b)
        trial = super().compare(a, b, pairs, enough)
        told = self._step_logs[: len(trial.log_ratios)]
        logs = tuple(log for log in told if log is not None)
        return trial.over_stretches(self._parts, logs if len(logs) == len(told) else ())

    def _prepare(self, a: Plan, b: Plan) -> None:
        for plan in (a, b):
            course = self._course(a, b, changing(plan))
            if course is None:
                raise MeasureFailed(f"it is not known where in a run {', '.join(self._parts)} occurs")
            self._courses[plan] = course

    def _pair_took(self, seconds: float) -> None:
        super()._pair_took(seconds)
        plainly = {plan: self._courses[plan].process_seconds for plan in self._trained}
        self.costs.took(seconds, self._trained, plainly)

    def _take(self, rhythm: Rhythm) -> None:
        self._rhythm, self._block_steps = rhythm, 1  # as many as a course has

    def _fitting_pair(self, a: Plan, b: Plan, a_first: bool) -> Pair:
        return self._pair(a, b, a_first)

    @property
    def steps_needed(self) -> int:
        return max((course.cuts[-1] for course in self._courses.values()), default=0)

    def _settle(self, worker: Worker) -> None:
        """Train up to the first stretch, untimed."""
        course = self._courses[worker.plan]
        worker.steps(course.cuts[0] - 1, timeout=self._timeout(course))
        worker.pause()

    def _blocks(
        self, workers: Mapping[Plan, Worker], first: Plan, second: Plan
    ) -> Iterator[tuple[Plan, Block]]:
        """A stretch is a block: in the order A B B A if there are two of each."""
        trained: dict[Plan, list[list[Step]]] = {first: [], second: []}
        several = min(len(self._courses[plan].lengths) for plan in (first, second)) > 1
        for plan in (first, second, second, first) if several else (first, second):
            trained[plan].append(self._stretch(workers[plan], len(trained[plan])))
        self._trained = {plan: seconds_trained(worker.history[1:]) for plan, worker in workers.items()}
        a, b = self._compared
        if changing(a) == changing(b) and (less := done_less(self._parts, trained[a], trained[b])):
            raise MeasureFailed(less)
        of_a, of_b = (self._regular(trained[plan]) for plan in (a, b))
        self._step_logs.append(math.log(of_b / of_a) if of_a and of_b else None)
        evened = (
            self.early and act_between_steps(a, b) and are_beyond_steps(self._parts, trained[a], self._rhythm)
        )
        timed = with_steps_of_both(trained, self._rhythm) if evened else trained
        yield from ((plan, self._block_of(steps)) for plan, each in timed.items() for steps in each)

    def _regular(self, stretches: Sequence[Sequence[Step]]) -> float | None:
        """Seconds per sample of their regular steps; None if there are none."""
        blocks = [measure(steps, self._timed, least=1) for steps in stretches]
        times = [block.sample_seconds for block in blocks if block is not None]
        return self._timed.usual(times) if times else None

    def _alone(self, plan: Plan, worker: Worker) -> list[Block]:
        return [self._block_of(self._stretch(worker, n)) for n in range(len(self._courses[plan].lengths))]

    def _stretch(self, worker: Worker, number: int) -> list[Step]:
        """Train all steps of one stretch. Disturbed ones count as measured: the script does not go back."""
        course = self._courses[worker.plan]
        before = self._quiet.begin()
        worker.resume()
        steps = worker.steps(course.lengths[number], timeout=self._timeout(course))
        worker.pause()
        self._quiet.disturbed(before, again=False)
        if why_not := spoilt(steps, self._rhythm):
            raise MeasureFailed(why_not)
        return steps

    def _block_of(self, steps: Sequence[Step]) -> Block:
        """Their total time, per sample."""
        seconds = sum(step.seconds for step in steps)
        samples = len(steps) if self._timed.unit == STEPS else sum(map(self._timed.samples, steps))
        if not samples:
            raise MeasureFailed("no samples were seen in a whole stretch of the run")
        regular = measure(steps, self._timed, least=1)
        mean, uneven = (regular.mean_seconds, regular.uneven) if regular else (0.0, 1.0)
        return Block(seconds / samples, seconds / len(steps), mean, samples, uneven)

    def _time(self, blocks: Sequence[Block]) -> float:
        """Seconds per sample of all stretches: a short one with an evaluation counts only by its samples."""
        samples = sum(block.samples for block in blocks)
        return sum(block.sample_seconds * block.samples for block in blocks) / samples

    def _timeout(self, course: Course) -> float:
        return START_SECONDS + _PATIENCE * course.process_seconds
