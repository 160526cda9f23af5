"""Which bench measures what, and with how many pairs."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from hasten.bench.comparing.decisions import Effort
from hasten.bench.comparing.quiet import Quiet
from hasten.bench.comparing.steps import STEPS, TOO_FEW_REGULAR, Rhythm
from hasten.bench.script_bench import ScriptBench
from hasten.bench.workers.limit import Limit
from hasten.records.plan import BASELINE, Plan
from hasten.records.run_forecast import SeenProcess
from hasten.records.trial import Proof, Trial
from tests.bench.paper_epochs import QUICK, START_SECONDS, PaperRun, known
from tests.bench.paper_workers import PaperTrials, PaperWorker
from tests.bench.real_workers import trials_for

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


LAYOUT, LAYOUT_TOO = Plan({"channels_last": {}}), Plan({"channels_last": {}, "bf16": {}})


def test_what_came_too_late_in_a_training_is_in_force_from_the_first_step_on() -> None:
    """What comes with it is compared live again, in a process that began with it."""
    trials = PaperTrials(refused={"channels_last": "views of weights are held"})
    with bench_over(trials) as bench:
        assert bench.method(BASELINE, LAYOUT) == "live"
        assert bench.compare(BASELINE, LAYOUT, 0.0).failure == "channels_last: views of weights are held"
        assert bench.foreseen(BASELINE, LAYOUT) > bench.foreseen(BASELINE, LIVE)
        found = [bench.compare(a, b, 0.0) for a, b in ((BASELINE, LAYOUT), (LAYOUT, LAYOUT_TOO))]
        assert [(trial.method, trial.failure) for trial in found] == [("pairs", None), ("live", None)]
        assert "channels_last" in trials.workers[-1].plan.techniques
        assert bench.method(BASELINE, LAYOUT_TOO) == "pairs"


def test_where_every_step_has_its_evaluation_steps_are_compared() -> None:
    each = Rhythm(evaluations=1, restarts=0, cycle=1, cycle_seconds=0.01, unit=STEPS, alike=True)
    plan = Plan({**PROCESS.techniques, **QUICK.techniques})
    with known():
        for rhythm, live in ((RHYTHM, False), (replace(each, alike=False), False), (each, True)):
            trials = PaperTrials(evaluating=True)
            with ScriptBench(trials.as_trials(), rhythm) as bench:
                assert bench.method(BASELINE, QUICK) == ("live" if live else "stretches")
                assert bench.for_steps(plan) == (plan if live else PROCESS)
                if live:
                    assert bench.compare(BASELINE, QUICK, 0.0).failure is None
                    assert bench.stretch_pair(plan) is None
                    assert bench.confirm(plan, Effort(6)).method == "pairs"


def test_what_no_process_can_do_is_not_tried_in_new_ones() -> None:
    with bench_over(PaperTrials(refused={"bf16": "no such instructions"})) as bench:
        bench.compare(BASELINE, LIVE, 0.0)
        assert bench.method(BASELINE, LIVE) == "live"


def test_what_would_fail_at_once_takes_no_time() -> None:
    """Where no block of a running training can be timed, no budget is named for what would be compared so."""
    trials = PaperTrials(evaluating=True)
    with ScriptBench(trials.as_trials(), Rhythm(0, 0, cycle=2, cycle_seconds=0.02)) as bench:
        assert bench.foreseen(BASELINE, LIVE) > 0.0
        assert bench.compare(BASELINE, LIVE, 0.0).failure == TOO_FEW_REGULAR
        assert bench.foreseen(BASELINE, LIVE) == 0.0
        assert bench.foreseen(BASELINE, PROCESS) > 0.0


# hasten is switched in such a process after its first checkpoint, which the script still holds
HOLDS = """
    from ground import *

    model = Cnn()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for epoch in range(1000):
        for pictures, labels in DataLoader(Pictures(), batch_size=8):
            train_step(model, optimizer, pictures, labels)
        checkpoint = {"model": model.state_dict(), "epoch": epoch}
"""


@pytest.mark.thorough
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="stops processes by signals")
def test_a_script_that_holds_its_checkpoints_can_lie_channels_last(tmp_path: Path) -> None:
    with trials_for(tmp_path, HOLDS) as trials, ScriptBench(trials, RHYTHM) as bench:
        late = bench.compare(BASELINE, LAYOUT, 0.0)
        assert "the script holds views of its weights" in (late.failure or "")
        assert late.too_late
        trial = bench.compare(BASELINE, LAYOUT, 0.0)
        assert (trial.method, trial.failure) == ("pairs", None)
        more = bench.compare(LAYOUT, LAYOUT.adding("fused_optimizer", {"form": "fused"}), 0.0)
        assert (more.method, more.failure) == ("live", None), "it is in force from the first step on"


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="stops processes by signals")
def test_what_was_on_when_a_checkpoint_was_saved_cannot_be_switched_off(tmp_path: Path) -> None:
    """Its weights stay as they are: what is trained then is no plain training."""
    with trials_for(tmp_path, HOLDS) as trials, trials.worker() as worker:
        worker.wait_started()
        assert worker.switch(LAYOUT) == ""
        worker.steps(40)
        for plan in (BASELINE, LIVE):
            assert "channels_last: the script holds views of its weights" in worker.switch(plan)
            worker.steps(1)


def test_pairs_end_as_soon_as_they_are_clear() -> None:
    for effect in (0.5, 1.2):
        with bench_over(PaperTrials(effects={"malloc": effect})) as bench:
            assert len(bench.compare(BASELINE, PROCESS, 1e9).log_ratios) == 2


def test_what_loses_a_fifth_in_its_first_pair_gets_no_second() -> None:
    with bench_over(PaperTrials(effects={"malloc": 1.3})) as bench:
        trial = bench.compare(BASELINE, PROCESS, 1e9)
    assert [math.exp(x) for x in trial.log_ratios] == pytest.approx([1.3])
    assert trial.failure == "1.30 times slower in its first pair of processes, which was enough"


def test_a_first_pair_that_others_disturbed_is_not_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    counted = iter(range(100))
    monkeypatch.setattr(Quiet, "counted_as_measured", property(lambda quiet: next(counted)))
    with bench_over(PaperTrials(effects={"malloc": 1.3})) as bench:
        trial = bench.compare(BASELINE, PROCESS, 1e9)
    assert len(trial.log_ratios) == 2
    assert trial.failure is None


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


@pytest.fixture
def epochs() -> Iterator[PaperRun]:
    """Of 0.4 s of steps and 4 s of evaluation."""
    with known():
        yield PaperRun(epoch=40, between=4.0, shorter={"quick_eval": 0.5}, effects={"bf16": 0.8})


def test_what_differs_outside_of_steps_is_compared_over_stretches(epochs: PaperRun) -> None:
    whole = Plan({"bf16": {}, **QUICK.techniques})
    with bench_over(epochs) as bench:
        bench.seek(BASELINE, QUICK, 1e6)
        assert bench.compare(BASELINE, QUICK, 0.0).method == "stretches"
        assert bench.compare(Plan({"bf16": {}}), whole, 0.0).method == "stretches"
        assert bench.compare(QUICK, whole, 0.0).method == "live", "they differ in steps alone"


def test_two_pairs_of_stretches_are_enough_where_they_are_clear(epochs: PaperRun) -> None:
    with bench_over(epochs) as bench:
        bench.seek(BASELINE, QUICK, 1e6)
        assert len(bench.compare(BASELINE, QUICK, 1e6).log_ratios) == 2


@pytest.mark.parametrize(
    ("times", "pairs"), [(0.5, 3), (1.0, 2)], ids=["looks faster", "does not look faster"]
)
def test_a_third_pair_tells_where_two_look_faster_and_time_is_over(
    epochs: PaperRun, times: float, pairs: int
) -> None:
    """An evaluation of half an epoch looked 1.18 times faster (0.93 to 1.49) over two pairs."""
    epochs.shorter = {"quick_eval": times}
    with bench_over(epochs) as bench:
        bench.seek(BASELINE, QUICK, 1e6)
        epochs.speeds = (0.01, 0.012, 0.01, 0.02, 0.01) if times < 1 else (0.01, 0.011, 0.011, 0.01, 0.01)
        epochs.workers.clear()
        assert len(bench.compare(BASELINE, QUICK, 0.0).log_ratios) == pairs


@pytest.mark.attack("truth")
def test_a_plan_with_such_a_technique_is_confirmed_over_stretches_from_end_to_end(epochs: PaperRun) -> None:
    whole = Plan({"bf16": {}, **QUICK.techniques})
    with bench_over(epochs) as bench:
        bench.seek(BASELINE, QUICK, 1e6)
        epochs.workers.clear()
        trial = bench.confirm(whole, Effort(4))
    assert (trial.a, trial.b, trial.parts) == (BASELINE, whole, ("evaluation",))
    assert trial.log_ratios == pytest.approx([math.log((0.8 * 0.4 + 2) / 4.4)] * 4)
    assert {worker.taken for worker in epochs.workers} == {81}


def test_what_such_a_comparison_takes_is_foreseen(epochs: PaperRun) -> None:
    with ScriptBench(epochs.as_trials(), RHYTHM, start_seconds=START_SECONDS) as bench:
        assert bench.foreseen(BASELINE, QUICK) == pytest.approx(4 * START_SECONDS)
        assert bench.stretch_pair(QUICK) is None
        bench.seek(BASELINE, QUICK, 1e6)
        early = 2 * START_SECONDS + 2 * (0.09 + 4.4)
        assert bench.foreseen(BASELINE, QUICK) == pytest.approx(2 * early)
        assert bench.stretch_pair(QUICK) == pytest.approx(2 * START_SECONDS + 2 * 8.8)
        assert bench.stretch_pair(Plan({"bf16": {}})) is None


@pytest.mark.parametrize(("name", "seconds"), [("dataset_in_ram", 0.0), ("malloc", 20.0)])
def test_before_starts_are_compared_only_what_is_decided_before_them_is_set_up(
    name: str, seconds: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = Plan({name: {}})
    with ScriptBench(PaperTrials().as_trials(), RHYTHM, start_seconds=START_SECONDS) as bench:
        monkeypatch.setattr(bench, "setup", lambda plan: 20.0 * (name in plan.techniques))
        foreseen = bench.foreseen(found, found.adding("lazy_dynamo", {}))
    assert foreseen == pytest.approx(3 * 2 * (START_SECONDS + seconds))


def test_the_live_worker_does_not_run_during_pairs() -> None:
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


def test_what_is_compiled_for_one_number_of_threads_is_compiled_again_for_another() -> None:
    compiled = Plan({"compile": {"mode": "default"}})
    with bench_over(PaperTrials()) as bench:
        known = bench.foreseen(compiled, compiled.adding("malloc", {}))
        assert bench.foreseen(compiled, compiled.adding("threads", {"count": 1})) >= known + 20


def test_the_wait_until_something_shows_is_foreseen_to_take_half_of_what_is_left_at_most() -> None:
    late = Plan({"denormals": {}})
    with bench_over(PaperTrials()) as bench:
        usual = bench.foreseen(BASELINE, late)
        bench.wait_for({"denormals": 800})
        assert bench.foreseen(BASELINE, late) == pytest.approx(usual + 2 * 800 * 0.01)
        assert bench.foreseen(BASELINE, LIVE) == pytest.approx(usual)


COMPILED, COPIED = Plan({"compile": {"mode": "default"}}), Plan({"bf16": {}})


def set_up_live(bench: ScriptBench) -> None:
    for plan in (COMPILED, COPIED):
        bench.learn(Trial(BASELINE, plan, "live", (), None, None, None, 1.0, 7.0))


def test_processes_that_were_started_for_their_start_tell_nothing_of_set_ups() -> None:
    with bench_over(PaperTrials()) as bench:
        set_up_live(bench)
        bench.compare(COPIED, COPIED.adding("lazy_dynamo", {}), 0.0)
        assert bench.setup(COPIED) == bench.setup(COPIED.adding("lazy_dynamo", {})) == 7.0


def test_what_is_compiled_already_is_set_up_sooner_in_a_later_process() -> None:
    with bench_over(PaperTrials()) as bench:
        set_up_live(bench)
        assert (bench.setup(COMPILED), bench.setup(COPIED)) == (3.5, 7.0)


def test_what_later_processes_are_spared_is_not_foreseen_again() -> None:
    """Samples that are read back are a run's set-up, but not one of each process of the tune."""
    in_ram, spared = Plan({"dataset_in_ram": {}}), 6.0
    proof = Proof("dataset_in_ram", True, "", shared_seconds=spared)
    seen = SeenProcess(1.0, 0.01, setup_seconds=7.0, shared_seconds=spared)
    with bench_over(PaperTrials()) as bench:
        bench.learn(Trial(BASELINE, in_ram, "live", (), None, None, None, 1.0, 7.0, proofs=(proof,)))
        assert bench.setup(in_ram) == 7.0 - spared
        bench.learn(Trial(BASELINE, in_ram, "pairs", (), None, None, None, 1.0, 7.0, processes_b=(seen,)))
        assert bench.setup(in_ram) == 7.0 - spared


def test_what_processes_took_to_begin_with_a_plan_is_what_the_next_will_take() -> None:
    both, trials = COMPILED.adding("bf16", {}), PaperTrials()

    def start(worker: PaperWorker) -> None:
        worker.setup_seconds = 0.25 * len(worker.plan.techniques)

    trials.on_start = start
    with bench_over(trials) as bench:
        bench.confirm(both, Effort(2))
        assert bench.setup(both) == 0.5
    with bench_over(trials) as bench:
        set_up_live(bench)
        assert bench.setup(both) == 10.5
        bench.compare(both, both.adding("affinity", {"policy": "spread"}), 0.0)
        assert bench.setup(both) == 0.5
        assert bench.setup(COMPILED) == 0.5, "it takes no more than with another technique"
        assert bench.setup(Plan({"compile": {"mode": "reduce-overhead"}})) == 0.0, "it is not known"


RANKS = Plan({"processes": {"count": 2}})


@pytest.mark.parametrize(
    ("effect", "rehearsals"), [(1.2, {"briefly"}), (0.5, {"briefly", "in full"})], ids=["slower", "faster"]
)
def test_only_ranks_that_are_faster_are_rehearsed_in_full(effect: float, rehearsals: set[str]) -> None:
    trials = PaperTrials(effects={"processes": effect})
    with bench_over(trials) as bench:
        trial = bench.compare(BASELINE, RANKS, 1e9)
    assert trial.ratio is not None
    assert set(trials.rehearsals) == rehearsals


def test_ranks_that_are_faster_and_train_something_else_win_nothing() -> None:
    trials = PaperTrials(effects={"processes": 0.5}, refuses_ranks="it goes by the clock")
    with bench_over(trials) as bench:
        trial = bench.compare(BASELINE, RANKS, 1e9)
    assert (trial.ratio, trial.failure) == (None, "processes: it goes by the clock")
