"""Which bench measures what, and with how many pairs."""

from __future__ import annotations

import math

import pytest

from hasten.bench.comparing.decisions import Effort
from hasten.bench.comparing.steps import Rhythm
from hasten.bench.script_bench import ScriptBench
from hasten.bench.workers.limit import Limit
from hasten.records.plan import BASELINE, Plan
from tests.bench.paper_workers import PaperTrials, PaperWorker

RHYTHM = Rhythm(evaluations=0, restarts=0, cycle=1, cycle_seconds=0.01)
LIVE, PROCESS = Plan({"bf16": {}}), Plan({"malloc": {}})
BOTH = Plan({"malloc": {}, "bf16": {}})


def bench_over(trials: PaperTrials) -> ScriptBench:
    return ScriptBench(trials.as_trials(), RHYTHM)


@pytest.mark.parametrize(
    ("a", "b", "method"),
    [
        (BASELINE, LIVE, "live"),
        (PROCESS, BOTH, "live"),
        (BASELINE, PROCESS, "pairs"),
        (LIVE, BOTH, "pairs"),
        (Plan({"threads": {"count": 1}}), Plan({"threads": {"count": 2}}), "pairs"),
    ],
)
def test_what_can_be_switched_is_compared_live(a: Plan, b: Plan, method: str) -> None:
    with bench_over(PaperTrials()) as bench:
        assert bench.compare(a, b, 0.0).method == method


def test_pairs_end_as_soon_as_they_are_clear() -> None:
    for effect in (0.5, 1.5):
        with bench_over(PaperTrials(effects={"malloc": effect})) as bench:
            assert len(bench.compare(BASELINE, PROCESS, 1e9).log_ratios) == 2


def test_two_pairs_that_both_say_slower_are_enough_however_far_apart() -> None:
    trials = PaperTrials(speeds=(0.01, 0.011, 0.03, 0.01))
    with bench_over(trials) as bench:
        trial = bench.compare(BASELINE, PROCESS, 1e9)
    assert [math.exp(x) for x in trial.log_ratios] == pytest.approx([1.1, 3.0])


def unclear() -> PaperTrials:
    """Pairs that contradict each other."""
    return PaperTrials(speeds=(0.01, 0.012, 0.01, 0.012, 0.01))


@pytest.mark.parametrize(("seconds", "pairs"), [(1e9, 5), (45.0, 4), (30.0, 3), (0.0, 3)])
def test_unclear_pairs_go_on_as_far_as_time_allows(seconds: float, pairs: int) -> None:
    """A start takes five seconds, and steps take none."""
    trials = unclear()
    clock = [0.0]
    trials.limit = Limit(lambda: clock[0])

    def start(worker: PaperWorker) -> None:
        clock[0] += 5.0

    trials.on_start = start
    with bench_over(trials) as bench:
        assert len(bench.compare(BASELINE, PROCESS, seconds).log_ratios) == pairs


def test_the_claim_is_against_the_baseline_with_the_pairs_fixed_beforehand() -> None:
    with bench_over(PaperTrials(effects={"malloc": 0.1, "bf16": 0.5})) as bench:
        trial = bench.confirm(BOTH, Effort(6))
    assert (trial.a, trial.b, trial.method) == (BASELINE, BOTH, "pairs")
    assert trial.log_ratios == pytest.approx([math.log(0.05)] * 6)


def test_the_live_worker_does_not_run_beside_pairs() -> None:
    """A paper worker that goes on asserts that it is alone."""
    trials = PaperTrials()
    with bench_over(trials) as bench:
        bench.compare(BASELINE, LIVE, 0.0)
        assert not trials.workers[0].stopped
        bench.compare(BASELINE, PROCESS, 0.0)
        assert trials.workers[0].stopped
        live_again = len(trials.workers)
        bench.compare(BASELINE, LIVE, 0.0)
        bench.confirm(LIVE, Effort(1))
        assert trials.workers[live_again].stopped


def test_no_worker_outlives_the_bench() -> None:
    trials = PaperTrials()
    with bench_over(trials) as bench:
        bench.compare(BASELINE, LIVE, 0.0)
    assert all(worker.stopped for worker in trials.workers)


def test_what_is_slow_to_set_up_is_foreseen_to_be_until_it_is_known() -> None:
    """Else it is begun where it cannot come to its end, and takes the time that a claim needs."""
    compiled = Plan({"compile": {"mode": "default"}})
    both = compiled.adding("bf16", {})
    with bench_over(PaperTrials()) as bench:
        usual, more = bench.foreseen(BASELINE, LIVE), bench.foreseen(BASELINE, compiled)
        assert more >= usual + 20
        assert bench.foreseen(compiled, both) < more  # it is set up already
        bench.compare(BASELINE, compiled, 1.0)
        assert bench.foreseen(BASELINE, compiled) < more
