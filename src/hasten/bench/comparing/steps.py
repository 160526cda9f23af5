"""What a usual step of a script looks like, and which of its steps are."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, median

from ...inside.observing.cycles import cycle_length
from ...records.observation import Step
from ...records.phases import usual_cycles
from ...records.plan import Plan
from ..base import batches_differ, loader_workers
from .unequal import NO_GROWTH, Count, Growth, growth_of

LOADED, GONE_THROUGH, STEPS = "samples from loaders", "samples through modules", "steps"
"""What times are compared per."""

_COUNTS: Mapping[str, Count] = {
    LOADED: lambda step: step.samples or 0,
    GONE_THROUGH: lambda step: step.inputs or 0,
    STEPS: lambda step: 1,
}
_MOST, _NEARLY_ALL = 0.5, 0.9  # shares of the observed cycles
BLOCK_SECONDS = 0.1  # timed cycles of a block take at least this, so clocks and switches do not matter
_LEAST_CYCLES, _LEAST_IF_SHORT = 3, 2
_SHORT_CYCLES = 150  # of a script: one process gives few ABBA blocks, and each is of another process
_MOST_CYCLES = 40
_SLOW_SECONDS = 0.25  # of a cycle: a single one is timed for longer than a block of a fast script
_WARMUP_CYCLES, _WARMUP_IF_SLOW = 10, 3
_WARMUP_SECONDS = 2.0  # are enough, if cycles are slow
_LATE = 100  # steps that show what is usual by now
_WARMUP_SHARE = 4  # of a script's steps, at most one in this many goes into warming up
_BURSTS, _BURST_SECONDS = 2, 2.0  # in a block, as far as they fit into so many seconds
TOO_FEW_REGULAR = "too few regular steps to time: evaluations or new epochs fall into every block"


@dataclass(frozen=True)
class Rhythm:
    """What a usual step of the script looks like, learnt while it was observed."""

    evaluations: int
    restarts: int
    cycle: int  # optimizer steps in one repeating block of the script
    cycle_seconds: float  # of the baseline, median
    losses: bool = True  # whether the baseline's steps have any
    steps_in_all: int | None = None  # known where the script has come to its end
    unit: str = LOADED  # per what times are compared: the same in all blocks of all plans
    growth: Growth = NO_GROWTH  # of the time with the size of batches
    saves: int = 0
    epoch_steps: int | None = None  # that an epoch takes, if that is known
    epoch_seen: bool = False  # as those did that ended, not as the script's loader says
    planned_steps: int | None = None  # of the whole script, where its loops say so
    bursts: int = 0  # worker processes that make the batches: one step in as many may have to wait
    alike: bool = False  # whether no step was seen with more evaluations than usual

    @property
    def slow(self) -> bool:
        """Whether cycles take so long that few of them are enough."""
        return self.cycle_seconds >= _SLOW_SECONDS

    @property
    def by_mean(self) -> bool:
        """Whether the usual step is the mean: see ``blocks.measure``."""
        return self.bursts > 0

    def usual(self, values: Sequence[float]) -> float:
        return fmean(values) if self.by_mean else median(values)

    @property
    def has_epochs(self) -> bool:
        """Whether the training reads a loader, so that epochs can be seen."""
        return self.unit == LOADED

    @property
    def within_steps(self) -> frozenset[str]:
        """Parts of a run that are in each of its steps, and nowhere else as far as seen: what acts on them is
        compared by steps. So are the evaluations of a training that learns a whole graph, or takes one step
        an epoch, and evaluates after each.
        """
        in_each = self.evaluations and self.alike and (self.restarts or not self.has_epochs)
        return frozenset({"evaluation"} if in_each else ())

    @property
    def warmup_cycles(self) -> int:
        """Untimed cycles in which a process warms up."""
        fitting = int(_WARMUP_SECONDS / max(1e-9, self.cycle_seconds))
        return max(_WARMUP_IF_SLOW, min(_WARMUP_CYCLES, fitting))

    @property
    def short(self) -> bool:
        """Whether the script ends after few cycles, as far as known."""
        return self.steps_in_all is not None and self.steps_in_all < _SHORT_CYCLES * self.cycle

    def fewer(self, usual: int, if_slow: int) -> int:
        """How many of something: as usual, or fewer if cycles are slow."""
        return min(usual, if_slow) if self.slow else usual

    def warmup_steps(self, wanted: int) -> int:
        """``wanted``, or fewer if the script has no steps to spare."""
        return wanted if self.steps_in_all is None else min(wanted, self.steps_in_all // _WARMUP_SHARE)

    def block_steps(self, blocks: int, untimed: int, if_slow: int) -> int:
        """Steps of one block, when ``blocks`` of them and ``untimed`` steps must fit into the script.

        The first cycle of a block is not timed. ``if_slow``: how many are, if cycles are slow. 0 if the
        script ends too soon. A pass shorter than the bursts has all of them.
        """
        least = self.fewer(_LEAST_CYCLES, if_slow)
        enough = min(least, _LEAST_IF_SHORT)
        of_bursts = min(_BURSTS * self.bursts, int(_BURST_SECONDS / self.cycle_seconds))
        if self.epoch_steps is not None:
            of_bursts = min(of_bursts, self.epoch_steps // self.cycle - 1)
        enough_seconds = max(math.ceil(BLOCK_SECONDS / self.cycle_seconds), of_bursts)
        wanted = max(least, min(_MOST_CYCLES, enough_seconds))
        if self.steps_in_all is not None:
            wanted = min(wanted, (self.steps_in_all - untimed) // (blocks * self.cycle) - 1)
        return (1 + wanted) * self.cycle if wanted >= enough else 0

    def too_short(self, blocks: int, untimed: int, if_slow: int) -> str:
        """Why the script has too few steps if ``block_steps`` is 0."""
        needed = untimed + blocks * (1 + self.fewer(_LEAST_IF_SHORT, if_slow)) * self.cycle
        return f"the script ends after {self.steps_in_all} steps, and one comparison takes {needed}"

    def samples(self, step: Step) -> int:
        """The step's samples; 0 if not known, or if steps are compared."""
        return self.count(step) if self.unit != STEPS else 0

    def count(self, step: Step) -> int:
        """The step's samples, 0 if not known; 1 if steps are compared."""
        return _COUNTS[self.unit](step)

    def between(self, a: Plan, b: Plan) -> Rhythm:
        """For comparing the two: if they differ in what a process sees of a batch, its size is not corrected
        for.
        """
        found = replace(self, bursts=max(self.bursts, loader_workers(a), loader_workers(b)))
        return replace(found, growth=NO_GROWTH) if batches_differ(a, b) else found

    def with_usual(self, other: Rhythm) -> Rhythm:
        """The same with what is usual in a step by the other."""
        found = replace(self, evaluations=other.evaluations, restarts=other.restarts, saves=other.saves)
        return replace(found, alike=other.alike)

    def regular(self, step: Step) -> bool:
        """No evaluation, no new epoch and no save more than usual fell into the step."""
        as_usual = step.evaluations <= self.evaluations and step.restarts <= self.restarts
        return as_usual and step.saves <= self.saves

    def timed(self, step: Step) -> bool:
        """Whether it is regular and had no new model for which techniques were put in force."""
        return self.regular(step) and not step.new_model


def rhythm_of(steps: Sequence[Step], steps_in_all: int | None = None) -> Rhythm:
    """The most frequent counts of evaluations, restarts and saves, and the script's cycle."""
    evaluations = Counter(step.evaluations for step in steps).most_common(1)[0][0]
    restarts = Counter(step.restarts for step in steps).most_common(1)[0][0]
    saves = Counter(step.saves for step in steps).most_common(1)[0][0]
    cycle = cycle_length([step.signature for step in steps], [bool(step.samples) for step in steps])
    seconds = cycle * median(step.seconds for step in steps)
    losses = any(step.losses for step in steps)
    unit = _unit_of(steps, cycle)
    growth = growth_of(usual_cycles(steps, cycle), _COUNTS[unit])
    found = Rhythm(evaluations, restarts, cycle, seconds, losses, steps_in_all, unit, growth, saves)
    return replace(found, alike=all(step.evaluations <= evaluations for step in steps))


def as_of_late(rhythm: Rhythm, steps: Sequence[Step]) -> Rhythm:
    """``rhythm`` with what is usual in the latest ``steps``, where few of these are regular by it: an agent
    draws its actions at random at first, and asks its network for them later.
    """
    late = [step for step in steps[-_LATE:] if not step.new_model]
    if len(late) < _LATE // 2 or 2 * len(regular_steps(late, rhythm)) >= len(late):
        return rhythm
    return rhythm.with_usual(rhythm_of(late))


def _unit_of(steps: Sequence[Step], cycle: int) -> str:
    """Samples from a loader if most cycles take some (loops that read ahead skip some), otherwise those that
    went through the modules if known for nearly all; otherwise steps.
    """
    cycles = usual_cycles(steps, cycle)

    def share(samples: Callable[[Step], int | None]) -> float:
        return sum(any(samples(step) for step in c) for c in cycles) / max(1, len(cycles))

    if share(lambda step: step.samples) >= _MOST:
        return LOADED
    return GONE_THROUGH if share(lambda step: step.inputs) >= _NEARLY_ALL else STEPS


def in_unit(steps: Sequence[Step], rhythm: Rhythm) -> tuple[Step, ...]:
    """The steps with the samples that times are compared per, if any."""
    return tuple(replace(step, samples=rhythm.samples(step) or None) for step in steps)


def regular_steps(steps: Sequence[Step], rhythm: Rhythm) -> list[Step]:
    """The steps into which nothing unusual fell (``Rhythm.regular``)."""
    return [step for step in steps if rhythm.regular(step)]


def seconds_beyond_steps(steps: Sequence[Step], rhythm: Rhythm) -> float | None:
    """What fell into steps besides themselves: evaluations, new epochs, saves. None without a regular step.
    Regular steps that take longer than usual add nothing to it.
    """
    usual = [step.seconds for step in steps if rhythm.regular(step)]
    if not usual:
        return None
    return sum(max(0.0, step.seconds - median(usual)) for step in steps if not rhythm.regular(step))


def fastest_cycle(steps: Sequence[Step], rhythm: Rhythm) -> float:
    """Seconds of one of its steps; 0 if an evaluation or a new epoch came in every one."""
    each = rhythm.cycle
    cycles = [steps[at : at + each] for at in range(0, len(steps), each)]
    regular = [cycle for cycle in cycles if all(map(rhythm.regular, cycle))]
    return min((fmean(step.seconds for step in cycle) for cycle in regular), default=0.0)


def of_this_training(steps: Sequence[Step]) -> int:
    """How many of them came since the latest model appeared: that may have begun another training."""
    began = max((number for number, step in enumerate(steps) if step.new_model), default=0)
    return len(steps) - began


def spoilt(steps: Sequence[Step], rhythm: Rhythm) -> str:
    """Why such a training cannot win, however fast; "" if its losses are fine."""
    if not all(math.isfinite(loss) for step in steps for loss in step.losses):
        return "the loss is no longer a number"
    if rhythm.losses and not any(step.losses for step in steps):
        return "the loss can no longer be seen"
    return ""
