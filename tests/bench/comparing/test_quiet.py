"""Blocks that others disturbed, by what the kernel says of who had the processors."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from hasten.bench.comparing.decisions import gains, is_gain
from hasten.bench.comparing.live import LiveBench
from hasten.bench.comparing.pairs import PairsBench
from hasten.bench.comparing.quiet import Quiet
from hasten.bench.comparing.steps import Rhythm
from hasten.bench.workers.limit import Limit
from hasten.records.caution import Disturbance
from hasten.records.plan import BASELINE, Plan
from hasten.records.processor_time import ProcessorTime
from tests.bench.paper_workers import PaperTrials, PaperWorker

RHYTHM = Rhythm(evaluations=0, restarts=0, cycle=1, cycle_seconds=0.01)
FAST = Plan({"bf16": {}})
MALLOC = Plan({"malloc": {}})


@dataclass
class Machine:
    """Of ``cpus``, of which others use ``others(now)``; what we do takes ``ours``."""

    cpus: int = 2
    ours: float = 2.0
    others: Callable[[float], float] = lambda now: 0.0
    stolen_share: float = 0.0  # of what others have
    throttled_share: float = 0.0
    quota: float | None = None
    reading: ProcessorTime = field(default_factory=lambda: ProcessorTime(0.0, 0.0, 0.0))
    slept: list[float] = field(default_factory=list)

    def pass_by(self, seconds: float, ours: float) -> None:
        """As the kernel shares it out: who wants more than there is gets his part."""
        others, now = self.others(self.reading.at), self.reading
        fits = min(1.0, self.cpus / max(1e-9, ours + others))
        self.reading = ProcessorTime(
            now.at + seconds,
            now.busy + fits * (ours + others) * seconds,
            now.own + fits * ours * seconds,
            now.stolen + fits * self.stolen_share * others * seconds,
            now.throttled + self.throttled_share * seconds,
        )

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.pass_by(seconds, 0.0)

    def quiet(self, patience: float = 100.0) -> Quiet:
        quiet = Quiet(lambda: self.reading, self.cpus, self.quota, self.sleep)
        quiet.patience = patience
        return quiet

    def block(self, quiet: Quiet, seconds: float = 0.2) -> bool:
        before = quiet.begin()
        self.pass_by(seconds, self.ours)
        return quiet.disturbed(before)


@pytest.mark.attack("truth")
@pytest.mark.parametrize(
    ("cpus", "ours", "others", "disturbed"),
    [
        (2, 2.0, 0.0, False),
        (2, 2.0, 0.05, False),  # what a machine always does in the background
        (2, 2.0, 0.5, True),
        (2, 2.0, 1.0, True),
        (2, 2.0, 8.0, True),
        (2, 1.0, 1.0, True),
        (2, 1.0, 0.3, False),  # there is a CPU left for them
        (64, 8.0, 20.0, False),
        (64, 64.0, 1.0, True),  # one thread that waits lets all of them wait
        (64, 32.0, 31.0, False),
        (64, 32.0, 32.0, True),
        (1, 1.0, 1.0, True),
    ],
)
def test_others_disturb_where_no_cpu_is_left_for_them(
    cpus: int, ours: float, others: float, disturbed: bool
) -> None:
    machine = Machine(cpus, ours, lambda now: others)
    assert machine.block(machine.quiet()) is disturbed


@pytest.mark.attack("truth")
@pytest.mark.parametrize(
    ("share", "quota", "ours", "disturbed"),
    [
        (0.3, 4.0, 1.0, True),  # somebody else in the group has used the quota up
        (0.3, 2.0, 1.9, False),  # we have
        (0.02, 4.0, 1.0, False),
        (0.3, None, 1.0, False),
    ],
)
def test_a_quota_that_others_use_up_disturbs(
    share: float, quota: float | None, ours: float, disturbed: bool
) -> None:
    machine = Machine(8, ours, throttled_share=share, quota=quota)
    assert machine.block(machine.quiet()) is disturbed


def test_a_tick_of_the_kernels_clock_is_no_disturbance() -> None:
    """A hundredth of a second, for each CPU: much in a block of a tenth."""
    machine = Machine(2, 2.0, lambda now: 0.35)
    assert not machine.block(machine.quiet(), seconds=0.1)
    assert machine.block(machine.quiet(), seconds=1.0)


@pytest.mark.attack("processors")
def test_without_readings_nothing_is_set_aside() -> None:
    quiet = Quiet(lambda: None)
    quiet.patience = 100.0
    assert not quiet.disturbed(quiet.begin())
    assert quiet.cautions() == []


@pytest.mark.attack("truth")
@pytest.mark.parametrize(("busy_until", "waited"), [(0.2, 0.4), (1.0, 1.2), (3.0, 3.2), (1e9, 5.2)])
def test_it_waits_until_others_are_quiet_but_not_for_ever(busy_until: float, waited: float) -> None:
    machine = Machine(others=lambda now: 1.0 if now < busy_until else 0.0)
    quiet = machine.quiet()
    assert machine.block(quiet)
    assert sum(machine.slept) == pytest.approx(waited, abs=0.41)
    assert quiet.spent_seconds == pytest.approx(0.2 + sum(machine.slept))


@pytest.mark.attack("truth")
@pytest.mark.parametrize("patience", [0.0, 0.1, 1.0, 7.0, 30.0])
def test_patience_bounds_all_of_it_and_then_blocks_count(patience: float) -> None:
    machine = Machine(others=lambda now: 1.0)
    quiet = machine.quiet(patience)
    found = [machine.block(quiet) for _ in range(100)]
    assert found[-1] is False
    assert quiet.spent_seconds <= patience + 0.4 + 0.2
    assert found == sorted(found, reverse=True)
    assert quiet.set_aside == sum(found)
    (caution,) = quiet.cautions()
    spent = quiet.spent_seconds
    assert caution.disturbance == Disturbance(blocks=100, disturbed=100, set_aside=sum(found), seconds=spent)


def test_nothing_waits_for_others_that_stay() -> None:
    """They ran all the time while the script was watched; blocks still count as disturbed."""
    machine = Machine(others=lambda now: 1.0)
    quiet = machine.quiet()
    quiet.others_stay = True
    assert [machine.block(quiet) for _ in range(3)] == [False] * 3
    assert (quiet.contended, quiet.disturbed_blocks, quiet.set_aside, machine.slept) == (True, 3, 0, [])
    (caution,) = quiet.cautions()
    assert caution.disturbance == Disturbance(3, 3, 0, 0.0, kept=3)


@pytest.mark.parametrize(("seconds", "again"), [(0.5, True), (0.02, False)])
def test_others_that_have_ended_no_longer_stay(seconds: float, again: bool) -> None:
    """Short blocks cannot tell: the kernel counts in hundredths of a second."""
    machine = Machine()
    quiet = machine.quiet()
    quiet.others_stay = True
    assert [machine.block(quiet, seconds) for _ in range(3)] == [False] * 3
    machine.others = lambda now: 1.0
    assert machine.block(quiet, 0.5) is again


def test_it_is_said_while_it_waits_and_at_the_end() -> None:
    said: list[str] = []
    machine = Machine(others=lambda now: 1.0 if now < 0.5 else 0.0)
    quiet = machine.quiet()
    quiet.say = said.append
    assert [machine.block(quiet) for _ in range(4)] == [True, False, False, False]
    assert said == ["waiting until other programs are quiet"]
    (caution,) = quiet.cautions()
    spent = quiet.spent_seconds
    assert caution.disturbance == Disturbance(blocks=4, disturbed=1, set_aside=1, seconds=spent)


@pytest.mark.attack("truth")
@pytest.mark.parametrize(("stolen_share", "by_host"), [(0.2, False), (0.9, True)])
def test_who_took_it_is_told(stolen_share: float, by_host: bool) -> None:
    """Nobody can stop a program that is not on this machine."""
    machine = Machine(others=lambda now: 1.0, stolen_share=stolen_share)
    quiet = machine.quiet(0.0)
    machine.block(quiet)
    (caution,) = quiet.cautions()
    assert caution.disturbance == Disturbance(1, 1, 0, 0.0, by_host=by_host)


# ---- comparisons
@dataclass
class Disturbed:
    """Paper workers on a machine where others are at work at random moments, for ``share`` of the time."""

    share: float
    seed: int
    effects: dict[str, float]
    slowdown: float = 2.0
    now: float = 0.0

    def __post_init__(self) -> None:
        self.machine = Machine(others=self.others)
        self.trials = PaperTrials(effects=self.effects, on_steps=self.on_steps)
        self.trials.limit = Limit(lambda: self.machine.reading.at)
        source, at = random.Random(self.seed), 0.0
        self.noise = random.Random(self.seed + 1)
        self.busy: list[tuple[float, float]] = []
        while at < 500.0 and self.share:
            at += source.expovariate(1 / (1.0 / self.share - 1.0))
            length = source.uniform(0.5, 1.5)
            self.busy.append((at, at + length))
            at += length

    def others(self, now: float) -> float:
        return 1.0 if any(begin <= now < end for begin, end in self.busy) else 0.0

    def on_steps(self, worker: PaperWorker) -> None:
        """The speed for the steps that follow; they take 0.15 s, disturbed or not."""
        slower = self.slowdown if self.others(self.machine.reading.at) else 1.0
        worker.speed = 0.01 * slower * math.exp(self.noise.gauss(0.0, 0.005))
        self.machine.pass_by(0.15, 2.0)


@pytest.mark.attack("truth")
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("effect", [0.97, 0.8])
def test_a_gain_is_found_though_others_are_at_work_a_third_of_the_time(seed: int, effect: float) -> None:
    there = Disturbed(1 / 3, seed, {"bf16": effect})
    trial = LiveBench(there.trials.as_trials(), RHYTHM, there.machine.quiet()).compare(BASELINE, FAST, 1e9)
    assert trial.ratio is not None
    assert trial.ratio.value == pytest.approx(effect, rel=0.01)
    assert trial.ratio.high < 0.99


@pytest.mark.attack("truth")
@pytest.mark.parametrize("seed", range(6))
def test_nothing_is_found_where_nothing_is_though_others_are_at_work(seed: int) -> None:
    there = Disturbed(1 / 3, seed, {})
    trial = LiveBench(there.trials.as_trials(), RHYTHM, there.machine.quiet()).compare(BASELINE, FAST, 1e9)
    assert trial.ratio is not None
    assert trial.ratio.high > 0.99
    assert trial.ratio.low < 1.01


@pytest.mark.attack("truth")
@pytest.mark.parametrize(("effect", "least", "most"), [(0.95, 55, 60), (1.0, 0, 1)])
def test_without_patience_undisturbed_blocks_count(effect: float, least: int, most: int) -> None:
    """Of sixty comparisons, so many find the gain. Where disturbed blocks count as well, it is 53."""
    found = 0
    for seed in range(60):
        there = Disturbed(1 / 3, seed, {"bf16": effect})
        bench = LiveBench(there.trials.as_trials(), RHYTHM, there.machine.quiet(patience=0.0))
        found += gains(bench.compare(BASELINE, FAST, 8.0).ratio)
    assert least <= found <= most


def test_where_all_are_disturbed_all_count() -> None:
    there = Disturbed(1 / 3, 0, {"bf16": 0.8})
    there.busy = [(0.0, math.inf)]
    trial = LiveBench(there.trials.as_trials(), RHYTHM, there.machine.quiet(0.0)).compare(BASELINE, FAST, 5.0)
    assert trial.ratio is not None
    assert trial.ratio.value == pytest.approx(0.8, rel=0.01)


@pytest.mark.attack("truth")
@pytest.mark.parametrize("seed", range(4))
def test_pairs_measure_a_turn_again_that_others_disturbed(seed: int) -> None:
    there = Disturbed(1 / 3, seed, {"malloc": 0.9})
    quiet = there.machine.quiet(1e9)
    trial = PairsBench(there.trials.as_trials(), RHYTHM, quiet).compare(BASELINE, MALLOC, 5)
    assert trial.log_ratios == pytest.approx([math.log(0.9)] * 5, abs=0.03)
    assert quiet.set_aside == quiet.disturbed_blocks


@pytest.mark.attack("truth")
@pytest.mark.parametrize(
    ("effect", "pairs", "least", "most"), [(0.9, 8, 54, 60), (0.8, 5, 46, 60), (1.0, 8, 0, 1), (1.0, 5, 0, 1)]
)
def test_without_patience_undisturbed_pairs_count(effect: float, pairs: int, least: int, most: int) -> None:
    """Of sixty confirmations, so many find the gain. Where disturbed ones count as well, it is 12 and 38."""
    found = 0
    for seed in range(60):
        there = Disturbed(1 / 3, seed, {"malloc": effect})
        bench = PairsBench(there.trials.as_trials(), RHYTHM, there.machine.quiet(patience=0.0))
        found += is_gain(bench.compare(BASELINE, MALLOC, pairs).log_ratios)
    assert least <= found <= most


def test_where_all_pairs_are_disturbed_all_count() -> None:
    there = Disturbed(1 / 3, 0, {"malloc": 0.8})
    there.busy = [(0.0, math.inf)]
    bench = PairsBench(there.trials.as_trials(), RHYTHM, there.machine.quiet(patience=0.0))
    trial = bench.compare(BASELINE, MALLOC, 6)
    assert trial.log_ratios == pytest.approx([math.log(0.8)] * 6, abs=0.03)


def test_a_script_that_ends_has_no_steps_for_another_turn() -> None:
    there = Disturbed(0.9, 1, {"malloc": 0.5})
    there.trials.length = 80
    quiet = there.machine.quiet(1e9)
    trial = PairsBench(there.trials.as_trials(), RHYTHM, quiet).compare(BASELINE, MALLOC, 3)
    assert trial.failure is None
    assert len(trial.log_ratios) == 3
    assert quiet.disturbed_blocks > quiet.set_aside


@pytest.mark.attack("truth")
@pytest.mark.parametrize("contended", range(20))
def test_one_contended_block_does_not_spoil_a_live_comparison(contended: int) -> None:
    """Even if nothing reports that it was: whichever of the twenty blocks in five ABBA blocks it is."""
    blocks = [0]
    noise = random.Random(contended)

    def on_steps(worker: PaperWorker) -> None:
        timed = trials.log and len(trials.workers) == 1
        slow = 3.0 if timed and blocks[0] == contended else 1.0
        worker.speed = 0.01 * slow * math.exp(noise.gauss(0.0, 0.003))
        blocks[0] += bool(timed)

    trials = PaperTrials(effects={"bf16": 0.9}, on_steps=on_steps)
    trial = LiveBench(trials.as_trials(), RHYTHM).compare(BASELINE, FAST, 0.0)
    assert trial.ratio is not None
    assert trial.ratio.value == pytest.approx(0.9, rel=0.01)
    assert trial.ratio.high < 0.93
