"""The bench for a real script: live if the two plans can share a process, otherwise in pairs of
processes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from ..errors import WorkerError
from ..inside.techniques.catalog import slow_to_set_up
from ..inside.techniques.threads import Threads
from ..records.plan import BASELINE, Plan
from ..records.trial import Seen, Trial, Unseen
from .base import for_steps, method_of, outside_steps, process_part
from .comparing.confirmation import confirm
from .comparing.decisions import (
    LEAST_TO_TELL,
    Effort,
    all_much_slower,
    is_clear,
    lost_at_once,
    worth_repeating,
)
from .comparing.epoch_ends import EpochEnds
from .comparing.live import LiveBench
from .comparing.pairs import PairsBench
from .comparing.quiet import Quiet
from .comparing.shortened import ShortenedBench
from .comparing.starts import StartBench
from .comparing.statistics import interval
from .comparing.steps import Rhythm
from .comparing.stretches import LEAST_PAIRS as LEAST_STRETCH_PAIRS
from .comparing.stretches import StretchBench
from .trials import Trials
from .workers.ending import BudgetOver, PlanRefused, ScriptOver
from .workers.process_start import START_SECONDS

SEARCH_PAIRS = 5
LEAST_PAIRS = 3
# compiling: seen, 16 to 40 s for small models on two cores, and minutes for large ones
_SLOW_SETUP_SECONDS = 25.0
# times as long in a later process, which finds the compiled code kept: seen, 2.1 s instead of 8.2
_AGAIN = 0.5
_LATE = 2  # times the wait until something shows: it may take half of what is left, not more


class ScriptBench:
    """What the search and the confirmation measure with. Use it as a context: no worker outlives it.

    ``start_seconds``: how long a worker takes to its first step, as far as known.
    """

    def __init__(
        self, trials: Trials, rhythm: Rhythm, start_seconds: float = 0.0, quiet: Quiet | None = None
    ) -> None:
        self._quiet = quiet or Quiet()
        self.ends = EpochEnds(rhythm)
        self.live = LiveBench(trials, rhythm, self._quiet, self.ends)
        self.pairs = PairsBench(trials, rhythm, self._quiet, self.ends)
        self.stretches = StretchBench(trials, rhythm, self._quiet, self.ends, start_seconds)
        self.shortened = ShortenedBench(trials, rhythm, self._quiet, self.ends, start_seconds)
        self.starts = StartBench(trials, rhythm, self._quiet, self.ends)
        self._trials, self.begins = trials, trials.starts
        self._step_seconds = rhythm.cycle_seconds / rhythm.cycle
        self._start_seconds, self._within = start_seconds, rhythm.within_steps
        self._setups: dict[Plan, float] = {}  # seconds, by plans of one technique
        self._begun: dict[Plan, float] = {}  # the same of the latest process that began with each plan

    def __enter__(self) -> ScriptBench:
        return self

    def __exit__(self, *_: object) -> None:
        self.live.close()

    def wait_for(self, shows_after: Mapping[str, int]) -> None:
        """Techniques that have something to gain only after so many steps are compared then."""
        self.live.shows_after = self.pairs.shows_after = shows_after

    def rest(self) -> None:
        """Keep no process, nor its memory, until the next comparison."""
        self.live.close()

    def compare(self, a: Plan, b: Plan, seconds: float) -> Trial:
        """For the search: as many measurements as the decision needs, at most about ``seconds``."""
        trial = self._timed(lambda: self._compared(a, b, seconds))
        self.learn(trial)
        return trial

    def method(self, a: Plan, b: Plan) -> str:
        return method_of(a, b, self.live.from_first, self._within)

    def learn(self, trial: Trial) -> None:
        """Learn costs from a comparison, even from an earlier tune's."""
        a, b = trial.a, trial.b
        self._saw_begin(trial)
        if trial.ratio is not None and trial.method in ("live", "pairs"):
            for bench in (self.stretches, self.shortened):
                bench.costs.step_took(a, b, trial.ratio.value)
        if trial.shortened < 1:
            self.shortened.decide()
        new = [name for name, how in b.techniques.items() if a.techniques.get(name) != how]
        for name in new:  # for several, it is unknown which one it was
            one = b.only({name})
            each = max(0.0, trial.setup_seconds - trial.lasting_seconds - _shared(trial, new)) / len(new)
            if trial.method == "live" and slow_to_set_up(one):
                each *= _AGAIN
            self._setups[one] = max(self._setups.get(one, 0.0), each)

    def _saw_begin(self, trial: Trial) -> None:
        if trial.method == "starts":  # whose processes have nothing in force that the first step switches on
            return
        for plan, processes in ((trial.a, trial.processes_a), (trial.b, trial.processes_b)):
            if processes:
                spared = 0.0 if trial.earlier else processes[-1].shared_seconds
                self._begun[plan] = max(0.0, processes[-1].setup_seconds - spared)

    def _timed(self, measure: Callable[[], Trial]) -> Trial:
        """The trial, with where its time went."""
        waited = self._quiet.spent_seconds
        self._trials.stopwatch.lap(0.0, 0.0)
        trial = measure()
        waited = self._quiet.spent_seconds - waited
        return replace(trial, spent=self._trials.stopwatch.lap(trial.seconds, waited))

    def _compared(self, a: Plan, b: Plan, seconds: float) -> Trial:
        method = self.method(a, b)
        if method == "live":
            return self.live.compare(a, b, seconds)
        self.live.close()
        clock = self._trials.limit.clock
        began, least = clock(), LEAST_STRETCH_PAIRS if method == "stretches" else LEAST_PAIRS

        def enough(log_ratios: list[float]) -> bool:
            out_of_time = (clock() - began) * (1 + 1 / len(log_ratios)) > seconds
            if _clear(log_ratios):
                return True
            few = len(log_ratios) < LEAST_TO_TELL and worth_repeating(interval(log_ratios, "pairs"))
            return len(log_ratios) >= least and out_of_time and not few

        if method == "starts":
            return self.starts.compare(a, b, SEARCH_PAIRS, enough)
        if method == "stretches":
            bench = self._of_stretches(a, b)
            bench.early = True
            return bench.compare(a, b, SEARCH_PAIRS, enough)
        return self._in_full(self.pairs.compare(a, b, SEARCH_PAIRS, enough))

    def _in_full(self, trial: Trial) -> Trial:
        """If several processes look faster after a brief rehearsal, they are rehearsed in full."""
        if trial.upper() >= 1:
            return trial
        clock = self._trials.limit.clock
        began = clock()
        try:
            self._trials.rehearse(trial.b)
        except BudgetOver as over:
            trial = replace(trial, ratio=None, failure=str(over), cut_short=True)
        except (PlanRefused, ScriptOver, WorkerError) as error:
            trial = replace(trial, ratio=None, failure=str(error))
        return replace(trial, seconds=trial.seconds + clock() - began)

    def foreseen(self, a: Plan, b: Plan) -> float:
        """The least seconds that a comparison of the two takes, as far as known; 0 if it fails at once."""
        if self.live.untimable and self.method(a, b) == "live":
            return 0.0
        first = self._trials.foreseen_rehearsal(b, self._start_seconds) + self._unknown_setup(a, b)
        setup, method = max(self.setup(a), self.setup(b)), self.method(a, b)
        if method == "stretches":
            pair = self._of_stretches(a, b).seconds_of_pair(a, b, early=True) or 2 * self._start_seconds
            return first + LEAST_STRETCH_PAIRS * (pair + setup)
        if method == "starts":
            setup = max(self.setup(process_part(a)), self.setup(process_part(b)))
            return first + LEAST_PAIRS * 2 * (self._start_seconds + setup)
        if method == "pairs":
            return first + LEAST_PAIRS * (self._pair_seconds + setup)
        starts = self.live.starts(a) * (self._start_seconds + setup)
        late = self.live.seconds_until_it_shows(a, b, self._step_seconds)
        return first + starts + self.live.least_steps(a) * self._step_seconds + _LATE * late

    def seek(self, a: Plan, b: Plan, seconds: float) -> Seen | Unseen:
        self.live.close()
        found = self.stretches.seek(a, b, seconds)
        if isinstance(found, Seen) or not self.shortened.may_compare(a, b):
            return found
        in_short = self.shortened.seek(a, b, seconds)
        return in_short if isinstance(in_short, Seen) else found

    def _of_stretches(self, a: Plan, b: Plan) -> StretchBench:
        """What compares the two over whole stretches of a run."""
        return self.shortened if self.shortened.compares(a, b) else self.stretches

    def stretch_pair(self, plan: Plan) -> float | None:
        """The seconds of a pair that confirms ``plan``, without set-ups, if it is confirmed over whole
        stretches and these are known; otherwise None.
        """
        if not outside_steps(BASELINE, plan, self._within):
            return None
        return self._of_stretches(BASELINE, plan).seconds_of_pair(BASELINE, plan, early=False)

    def for_steps(self, plan: Plan) -> Plan:
        """``plan`` without what is compared over stretches; the baseline if nothing for steps is left."""
        return for_steps(plan, self._within)

    def _unknown_setup(self, a: Plan, b: Plan) -> float:
        """Seconds for techniques known to be slow to set up that were not set up yet. What is compiled for
        one number of threads is compiled again for another.
        """
        slow = slow_to_set_up(b)
        known = {name for name in slow if name in a.techniques or b.only({name}) in self._setups}
        other_threads = a.techniques.get(Threads.name) != b.techniques.get(Threads.name)
        return _SLOW_SETUP_SECONDS * len(slow if other_threads else slow - known)

    def setup(self, plan: Plan) -> float:
        """Seconds until a worker has all of ``plan`` in force, without its start, as far as known."""
        if (seen := self._begun.get(plan)) is not None:
            return seen
        return sum(self._setup_of(plan.only({name})) for name in plan.techniques)

    def _setup_of(self, one: Plan) -> float:
        """The same for a plan of one technique: no more than of a plan with it that a process began with."""
        whole = (seen for plan, seen in self._begun.items() if plan.holds(one))
        return min([self._setups.get(one, 0.0), *whole])

    @property
    def pair_seconds(self) -> float | None:
        """What the latest pairs took, without set-ups; None before the first."""
        return self.pairs.times.usual

    @property
    def plain_pair_seconds(self) -> float | None:
        """Likewise, of a pair of the baseline and a plan."""
        return self.pairs.times.with_plain_training

    @property
    def disturbed_share(self) -> float:
        """Share of the blocks so far in which other programs took the processors, 0 to 1."""
        return self._quiet.disturbed_share

    @property
    def waited_seconds(self) -> float:
        """Seconds spent waiting for other programs and measuring blocks again."""
        return self._quiet.spent_seconds

    @property
    def _pair_seconds(self) -> float:
        if self.pairs.times.usual is not None:
            return self.pairs.times.usual
        starts = self.begins.seconds(self._start_seconds, 2)
        return starts + 2 * self.pairs.steps_needed * self._step_seconds

    def confirm(self, plan: Plan, effort: Effort) -> Trial:
        """For the claim: baseline against ``plan``, with an effort fixed in advance."""
        trial = self._timed(lambda: self._confirmed(plan, effort))
        self._saw_begin(trial)
        return trial

    def _confirmed(self, plan: Plan, effort: Effort) -> Trial:
        self.live.close()
        clock = self._trials.limit.clock
        if not outside_steps(BASELINE, plan, self._within):
            return confirm(self.pairs, BASELINE, plan, effort, clock)
        bench = self._of_stretches(BASELINE, plan)
        bench.early = False
        bench.seek(BASELINE, plan, START_SECONDS)  # a plan that trains otherwise was not watched yet
        return confirm(bench, BASELINE, plan, effort, clock)


def _clear(log_ratios: list[float]) -> bool:
    """Whether the search needs no more pairs: the interval excludes 1, both of two say slower, or the first
    by far.
    """
    ratio = interval(log_ratios, "pairs")
    if ratio is None:
        return lost_at_once(log_ratios)
    return is_clear(ratio) or all_much_slower(log_ratios)


def _shared(trial: Trial, names: Sequence[str]) -> float:
    """Set-up of these techniques that later processes of this tune are spared, in seconds."""
    proofs = () if trial.earlier else trial.proofs
    return sum(proof.shared_seconds for proof in proofs if proof.technique in names)
