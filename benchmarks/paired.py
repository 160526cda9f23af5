"""Simulated confirmations: hasten's own comparison by pairs, over workers whose steps take times drawn from
the model of noise.

PairsBench over paper workers does a few hundred comparisons a minute. For tens of thousands the same medians
are taken in numpy, in the order in which PairsBench was seen to train; ``check`` holds the two against each
other, on the same draws.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from statistics import fmean

import numpy as np
from tests.bench.made_up import step
from tests.bench.paper_workers import PaperTrials, PaperWorker

from hasten.bench.comparing.decisions import LOOKS_MOST
from hasten.bench.comparing.pairs import PairsBench
from hasten.bench.comparing.steps import Rhythm
from hasten.records.observation import Step
from hasten.records.plan import BASELINE, Plan

from .noise import (
    ONE_IN_FIVE_SLOW,
    ONE_IN_TEN_SLOW,
    ONE_IN_TEN_TWICE_AS_SLOW,
    SELDOM_SLOW,
    STEADY,
    STEP_SECONDS,
    TWO_STATES,
    Floats,
    Noise,
    machine_part,
    own_part,
)

A, B = 0, 1  # places of the two plans' workers in an array
PLAN = Plan({"malloc": {}})
RHYTHM = Rhythm(evaluations=0, restarts=0, cycle=1, cycle_seconds=STEP_SECONDS)


@dataclass(frozen=True)
class Case:
    """Two plans and the noise that each trains under."""

    name: str
    what: str
    a: Noise
    b: Noise


CASES = (
    Case("steady", "both steady", STEADY, STEADY),
    Case("two-states", "both in two states, heavy tails", TWO_STATES, TWO_STATES),
    Case("seldom-slow-baseline", "the baseline seldom slow, the plan steady", SELDOM_SLOW, STEADY),
    Case("seldom-slow-plan", "the baseline steady, the plan seldom slow", STEADY, SELDOM_SLOW),
    Case("often-slow-plan", "the baseline steady, the plan slow one time in ten", STEADY, ONE_IN_TEN_SLOW),
)


BEYOND = (
    Case("one-in-five", "the baseline steady, the plan slow one time in five", STEADY, ONE_IN_FIVE_SLOW),
    Case(
        "twice-as-slow",
        "the baseline steady, the plan half as fast one time in ten",
        STEADY,
        ONE_IN_TEN_TWICE_AS_SLOW,
    ),
)


@dataclass(frozen=True)
class Schedule:
    """In which order the two workers of a pair train. ``when``: the moment, in steps of both, of each step of
    the worker that starts first, and of the other one: of shape 2 x steps.
    """

    steps: int  # of each worker
    blocks: list[slice]  # of a worker's steps
    when: np.ndarray[tuple[int, int], np.dtype[np.intp]]

    @property
    def first_after_stop(self) -> list[int]:
        return [block.start for block in self.blocks]


@dataclass(frozen=True)
class Draws:
    """Of many comparisons. ``own``: comparisons x pairs x 2 x steps; ``machine``: comparisons x pairs x twice
    as many steps.
    """

    own: Floats
    machine: Floats


@dataclass
class SimulatedTrials(PaperTrials):
    """``own``: pairs x 2 x steps; ``machine``: pairs x twice as many steps, in the order of time."""

    own: Floats = field(default_factory=lambda: np.zeros((2, 2, 10**3)))
    machine: Floats = field(default_factory=lambda: np.zeros((2, 2 * 10**3)))
    alone: Draws | None = None  # of one comparison, for processes after those of the pairs
    trained: list[tuple[int, int]] = field(default_factory=list)  # worker and steps, in the order of time

    def worker(self, plan: Plan = BASELINE, **_: object) -> PaperWorker:
        worker = SimulatedWorker(self, plan, STEP_SECONDS, number=len(self.workers), simulated=self)
        self.workers.append(worker)
        return worker


@dataclass
class SimulatedWorker(PaperWorker):
    number: int = 0
    simulated: SimulatedTrials = field(default_factory=SimulatedTrials)

    def _take(self, count: int) -> list[Step]:
        trials, pair = self.simulated, self.number // 2
        now = sum(steps for worker, steps in trials.trained if worker // 2 == pair)
        side = A if self.plan == BASELINE else B
        steps, moments = slice(self.taken, self.taken + count), slice(now, now + count)
        if pair < len(trials.own):
            logs = trials.own[pair, side, steps] + trials.machine[pair, moments]
        else:
            assert trials.alone is not None
            later = self.number - 2 * len(trials.own)
            logs = trials.alone.own[0, later, steps] + trials.alone.machine[0, later // 2, moments]
        trials.trained.append((self.number, count))
        self.taken += count
        usual = self.speed * math.prod(trials.effects.get(name, 1.0) for name in self.plan.techniques)
        return [step(usual * float(factor)) for factor in np.exp(logs)]


def schedule_of_pairs() -> Schedule:
    """As PairsBench was seen to train two pairs."""
    trials = SimulatedTrials()
    bench = PairsBench(trials.as_trials(), RHYTHM)
    assert bench.compare(BASELINE, PLAN, 2).failure is None
    first_pair = [(worker, count) for worker, count in trials.trained if worker < 2]
    assert first_pair == [(worker - 2, count) for worker, count in trials.trained if worker >= 2]
    moments: list[list[int]] = [[], []]
    blocks: list[list[slice]] = [[], []]
    now = 0
    for worker, count in first_pair:
        taken = len(moments[worker])
        blocks[worker].append(slice(taken, taken + count))
        moments[worker] += range(now, now + count)
        now += count
    timed = blocks[0][2:]  # the first step and the warm-up are not
    assert timed == blocks[1][2:]
    assert len(moments[0]) == len(moments[1]) == bench.steps_needed
    return Schedule(bench.steps_needed, timed, np.array(moments))


def draw(case: Case, schedule: Schedule, comparisons: int, pairs: int, source: np.random.Generator) -> Draws:
    sides = [
        own_part(noise, (comparisons, pairs), schedule.steps, schedule.first_after_stop, source)
        for noise in (case.a, case.b)
    ]
    return Draws(np.stack(sides, axis=2), machine_part((comparisons, pairs), 2 * schedule.steps, source))


def log_ratios(draws: Draws, schedule: Schedule) -> Floats:
    """What PairsBench makes of each pair, without an effect of the plan: comparisons x pairs."""
    found: Floats = np.log(seconds_of(B, draws, schedule) / seconds_of(A, draws, schedule))
    return found


def seconds_of(side: int, draws: Draws, schedule: Schedule) -> Floats:
    """Of the steps of each pair's process, in units of a usual step: comparisons x pairs."""
    pairs = np.arange(draws.own.shape[1])
    starts_second = (pairs % 2 == 0) == (side == B)
    when = schedule.when[starts_second.astype(int)]
    seconds = np.exp(draws.own[:, :, side] + np.take_along_axis(draws.machine, when[None], axis=-1))
    blocks = [np.median(seconds[..., block.start + 1 : block.stop], axis=-1) for block in schedule.blocks]
    found: Floats = np.median(np.stack(blocks, axis=-1), axis=-1)
    return found


def draw_alone(noise: Noise, schedule: Schedule, comparisons: int, source: np.random.Generator) -> Draws:
    """Of processes of the plan alone. ``own``: comparisons x LOOKS_MOST x steps; ``machine``: comparisons x
    half as many x twice as many steps: one walk through all of them.
    """
    block = schedule.blocks[0]
    own = own_part(noise, (comparisons, LOOKS_MOST), block.stop, [block.start], source)
    walk = machine_part((comparisons,), LOOKS_MOST * block.stop, source)
    return Draws(own, walk.reshape(comparisons, LOOKS_MOST // 2, 2 * block.stop))


def seconds_alone(draws: Draws, schedule: Schedule) -> Floats:
    """As ``seconds_of``, of each of them: comparisons x LOOKS_MOST. Of two both warm up before the first is
    timed.
    """
    block = schedule.blocks[0]
    timed = block.stop - block.start
    found: Floats = np.empty(draws.own.shape[:2])
    for second in (0, 1):
        began = 2 * block.start + second * timed
        machine = draws.machine[..., began : began + timed]
        steps = np.exp(draws.own[:, second::2, block] + machine)[..., 1:]
        found[:, second::2] = np.median(steps, axis=-1)
    return found


def whole_run_log_ratio(draws: Draws, schedule: Schedule) -> float:
    """The plan's time over the baseline's in very long trainings: spikes and slow states are in."""
    usual = np.setdiff1d(np.arange(schedule.steps), schedule.first_after_stop)
    means = [float(np.exp(draws.own[:, :, side][..., usual]).mean()) for side in (A, B)]
    return math.log(means[B] / means[A])


def check(draws: Draws, schedule: Schedule, comparisons: int, effect: float) -> float:
    """The largest difference between ``log_ratios`` and PairsBench, over the first comparisons drawn.

    ``effect``: the plan's factor on its steps' time. It adds to a log ratio, whatever the noise.
    """
    expected = log_ratios(draws, schedule)
    largest = 0.0
    for number in range(comparisons):
        trials = SimulatedTrials(
            effects={"malloc": effect}, own=draws.own[number], machine=draws.machine[number]
        )
        trial = PairsBench(trials.as_trials(), RHYTHM).compare(BASELINE, PLAN, draws.own.shape[1])
        assert trial.failure is None
        differences = np.array(trial.log_ratios) - math.log(effect) - expected[number]
        largest = max(largest, float(np.abs(differences).max()))
        assert trial.ratio is not None
        assert math.isclose(math.log(trial.ratio.value), fmean(trial.log_ratios), abs_tol=1e-12)
    return largest
