"""The bench of process pairs over paper workers."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import replace

import pytest

from hasten.bench.comparing.pair import PairTimes
from hasten.bench.comparing.pairs import PairsBench
from hasten.bench.comparing.quiet import Quiet
from hasten.bench.comparing.steps import TOO_FEW_REGULAR, Rhythm
from hasten.bench.workers.ending import PlanRefused
from hasten.bench.workers.limit import Limit
from hasten.errors import Refusal, WorkerError
from hasten.records.plan import BASELINE, Plan
from hasten.records.processor_time import ProcessorTime
from tests.bench.paper_workers import PaperTrials, PaperWorker

RHYTHM = Rhythm(evaluations=0, restarts=0, cycle=1, cycle_seconds=0.01)
WARMUP, BLOCK = 30, 11
FAST = Plan({"malloc": {}})


def bench_over(trials: PaperTrials, rhythm: Rhythm = RHYTHM) -> PairsBench:
    return PairsBench(trials.as_trials(), rhythm)


def test_the_ratio_is_the_effect() -> None:
    trial = bench_over(PaperTrials(effects={"malloc": 0.8})).compare(BASELINE, FAST, 4)
    assert trial.failure is None
    assert trial.method == "pairs"
    assert trial.log_ratios == pytest.approx([math.log(0.8)] * 4)
    assert trial.ratio is not None
    assert (trial.ratio.count, trial.ratio.unit) == (4, "pairs")
    assert (trial.step_seconds_a, trial.step_seconds_b) == pytest.approx((0.01, 0.008))
    assert [proof.technique for proof in trial.proofs] == ["malloc"]


WORKERS = Plan({"loader_workers": {"count": 1}})


@pytest.mark.attack("truth")
@pytest.mark.parametrize(
    ("plan", "by_mean", "ratio"), [(FAST, True, 0.7), (FAST, False, 0.4), (WORKERS, False, 0.7)]
)
def test_steps_that_wait_for_loader_workers_now_and_then_count_as_they_are(
    plan: Plan, by_mean: bool, ratio: float
) -> None:
    """Most found their batch ready: a plan of 1.6 times the speed was told to have 2.1 times."""
    (name,) = plan.techniques
    trials = PaperTrials(in_turn={name: (0.4, 0.4, 0.4, 1.3, 1.0)})
    trial = bench_over(trials, replace(RHYTHM, bursts=int(by_mean))).compare(BASELINE, plan, 4)
    assert trial.ratio is not None
    assert trial.ratio.value == pytest.approx(ratio)
    assert trial.processes_b[0].step_seconds == pytest.approx(0.007)
    assert trial.processes_b[0].uneven == pytest.approx(0.7 / ratio), "a forecast is for whole runs"


def test_set_up_that_lasts_is_told_in_full_whichever_process_paid_it() -> None:
    """As that of a store of samples: later processes find what the first has made."""
    trials = PaperTrials(paid=(0.0, 40.0, 20.0))
    trial = bench_over(trials).compare(BASELINE, FAST, 4)
    assert [worker.plan for worker in trials.workers[:3]] == [BASELINE, FAST, FAST]
    assert (trial.setup_seconds, trial.lasting_seconds) == (61.0, 60.0)
    assert [one.setup_seconds for one in trial.processes_b] == [1.0] * 4


@pytest.mark.parametrize(
    ("starts", "slower"),
    [
        pytest.param((3.0, 3.6, 3.6, 3.0, 3.0, 3.6), 0.2 * 3.0 / 1.6, id="a fifth, of a start side by side"),
        pytest.param((3.0, 3.6, 2.9, 3.0, 3.0, 3.6), 0.0, id="one does not"),
        pytest.param((3.6, 3.0, 3.0, 3.6, 3.6, 3.0), 0.0, id="faster"),
        pytest.param((3.0, 3.6, 3.6, 3.0), 0.0, id="two pairs are no evidence"),
        pytest.param((3.0, 3.6, 3.6, 3.0, 0.0, 3.6), 0.0, id="one is not known"),
    ],
)
def test_a_slower_start_that_is_certain_must_be_earned_back(starts: tuple[float, ...], slower: float) -> None:
    """Of 1,000 steps, each 0.2 ms shorter under the plan. The order swaps from pair to pair."""

    def begin(worker: PaperWorker) -> None:
        worker.start_seconds = starts[trials.workers.index(worker)]

    trials = PaperTrials(effects={"malloc": 0.98}, length=1000, on_start=begin)
    bench = bench_over(trials, replace(RHYTHM, steps_in_all=1000))
    trial = bench.compare(BASELINE, FAST, len(starts) // 2)
    assert trial.ratio is not None
    assert trial.ratio.value < 1
    assert trial.slower_start == pytest.approx(slower)
    assert trial.setup_seconds == 0.0
    assert (trial.pays_after, trial.never_pays) == ((1875, True) if slower else (None, False))
    assert trial.breakeven_steps is None


def test_every_pair_has_fresh_processes_and_none_is_left() -> None:
    trials = PaperTrials()
    bench_over(trials).compare(BASELINE, FAST, 3)
    assert len(trials.workers) == 6
    assert all(worker.stopped for worker in trials.workers)


def test_the_order_is_swapped_from_pair_to_pair() -> None:
    trials = PaperTrials()
    bench_over(trials).compare(BASELINE, FAST, 3)
    assert [worker.plan for worker in trials.workers] == [BASELINE, FAST, FAST, BASELINE, BASELINE, FAST]


def test_each_worker_is_warmed_up_and_trains_four_blocks() -> None:
    """While one trains the other is stopped: the paper worker asserts that."""
    trials = PaperTrials()
    bench_over(trials).compare(BASELINE, FAST, 1)
    for worker in trials.workers:
        name = worker.plan.label
        blocks = [f"{name} x {BLOCK}", "paused"] * 4
        last = ["paused"] if worker.plan == FAST else []  # after its proofs, so that the other can answer
        assert worker.log == ["paused", f"{name} x {WARMUP}", "paused", *blocks, *last], "none beside another"


def test_of_slow_steps_few_are_trained_in_an_order_in_which_a_drift_cancels() -> None:
    trials = PaperTrials((0.6,), {"malloc": 0.5})
    bench = bench_over(trials, Rhythm(0, 0, cycle=1, cycle_seconds=0.6))
    assert bench.compare(BASELINE, FAST, 1).log_ratios == pytest.approx([math.log(0.5)])
    assert [worker.taken for worker in trials.workers] == [1 + 3 + 2 * 3] * 2 == [bench.steps_needed] * 2
    a, b = "baseline", "malloc"
    assert trials.blocks(3)[2:] == [a, b, b, a], "warmed up by as many"


@pytest.mark.parametrize(("cycle", "untimed"), [(1, 4), (3, 6)])
def test_batches_made_before_a_pause_are_not_timed(cycle: int, untimed: int) -> None:
    """Worker processes of a loader fill their queue while the training waits to be stopped."""
    trials = PaperTrials()
    ahead = Plan({"loader_workers": {"count": 2}})
    bench_over(trials, Rhythm(0, 0, cycle, 0.01)).compare(BASELINE, ahead, 1)
    plain, made_ahead = trials.workers
    assert plain.taken == made_ahead.taken - 4 * untimed
    timed = int(plain.log[3].split()[-1])
    assert made_ahead.log[3:-1:2] == [f"loader_workers x {untimed + timed}"] * 4


def test_two_workers_of_a_pair_are_in_memory_at_once() -> None:
    trials = PaperTrials()
    bench_over(trials).compare(BASELINE, FAST, 1)
    assert trials.at_once == [2, 2]


def test_what_shows_late_is_compared_late() -> None:
    """A plan of nothing else is confirmed then."""
    late = Plan({"denormals": {}})
    trials = PaperTrials(effects={"denormals": 0.5})
    bench = bench_over(trials)
    bench.shows_after = {"denormals": 500}
    trial = bench.compare(BASELINE, late, 1)
    assert trial.log_ratios == pytest.approx([math.log(0.5)])
    assert all(worker.log[1].endswith(f" x {500 + WARMUP}") for worker in trials.workers)
    bench.compare(BASELINE, FAST, 1)
    assert all(worker.log[1].endswith(f" x {WARMUP}") for worker in trials.workers[2:])


def test_after_a_process_ran_out_of_gpu_memory_the_next_two_leave_each_other_theirs() -> None:
    out_of_memory = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.07 GiB"
    trials = PaperTrials(length=3, how="raised", detail=out_of_memory)
    bench = bench_over(trials)
    failed = bench.compare(BASELINE, FAST, 1)
    assert failed.ratio is None
    assert "OutOfMemoryError" in str(failed.failure)
    assert trials.starts.room.is_short_for(2)


def test_within_a_pair_the_two_take_turns_that_cancel_a_drift() -> None:
    trials = PaperTrials()
    bench_over(trials).compare(BASELINE, FAST, 2)
    a, b = "baseline", "malloc"
    assert trials.blocks(BLOCK) == [a, b, b, a, a, b, b, a, b, a, a, b, b, a, a, b]


def test_a_pair_counts_once_with_the_speed_of_its_processes() -> None:
    """The second of the first pair's processes is half as fast, by nature and not by the plan."""
    trials = PaperTrials(speeds=(0.01, 0.02, 0.01))
    trial = bench_over(trials).compare(BASELINE, FAST, 2)
    assert trial.log_ratios == pytest.approx([math.log(2), 0.0])


def test_a_script_of_just_the_steps_needed_is_long_enough() -> None:
    bench = bench_over(trials := PaperTrials())
    trials.length = bench.steps_needed
    assert bench.compare(BASELINE, FAST, 2).failure is None
    assert f"baseline x {BLOCK}" in trials.log


def test_blocks_shrink_until_a_short_script_has_room_for_them() -> None:
    trials = PaperTrials(effects={"malloc": 0.5}, length=41)
    trial = bench_over(trials).compare(BASELINE, FAST, 2)
    assert trial.failure is None
    assert trial.log_ratios == pytest.approx([math.log(0.5)] * 2)
    assert len(trials.workers) == 6, "the first pair tells how long the script is"
    assert trials.workers[-1].log[1] == "baseline x 10"
    assert trials.log[-1] == "malloc x 7"


LARGER = Plan({"batch_size": {"factor": 2}})


def shorter_under_larger_batches(plain: int, larger: int) -> PaperTrials:
    """A script of this many steps, and so many under larger batches."""
    trials = PaperTrials(effects={"batch_size": 0.5})

    def set_length(worker: PaperWorker) -> None:
        trials.length = larger if LARGER.techniques.keys() <= worker.plan.techniques.keys() else plain

    trials.on_start = trials.on_steps = set_length
    return trials


@pytest.mark.parametrize("a", [BASELINE, LARGER])
def test_the_length_of_a_changed_training_is_not_taken_for_the_scripts(a: Plan) -> None:
    trials = shorter_under_larger_batches(plain=200, larger=41)
    bench = bench_over(trials)
    trial = bench.compare(a, Plan({**LARGER.techniques, **FAST.techniques}), 2)
    assert trial.failure is None
    assert trial.script_steps is None
    trial = bench.compare(BASELINE, FAST, 1)
    assert (trial.failure, trial.script_steps) == (None, None)
    assert trials.log[-1] == f"baseline x {BLOCK}", "the plain script is long enough for usual blocks"


def test_a_changed_training_may_be_shorter_than_the_script_whose_length_is_known() -> None:
    trials = shorter_under_larger_batches(plain=60, larger=41)
    bench = bench_over(trials)
    assert bench.compare(BASELINE, FAST, 1).script_steps == 60
    trial = bench.compare(BASELINE, LARGER, 2)
    assert (trial.failure, trial.script_steps) == (None, 60)


def test_a_script_too_short_for_the_smallest_blocks_fails() -> None:
    trial = bench_over(PaperTrials(length=16)).compare(BASELINE, FAST, 2)
    assert trial.failure == "the script ends after 16 steps, and one comparison takes 17"
    assert trial.ratio is None


def test_blocks_fit_a_short_script_also_where_batches_were_made_ahead() -> None:
    """Two worker processes with two batches each: up to four of a block may have been ready."""
    trials = PaperTrials(length=60)
    trial = bench_over(trials).compare(BASELINE, Plan({"loader_workers": {"count": 2}}), 2)
    assert trial.failure is None
    assert max(worker.taken for worker in trials.workers[2:]) <= 60


def test_a_script_that_became_shorter_fails() -> None:
    trials = PaperTrials(length=41)

    def shorten(worker: PaperWorker) -> None:
        if len(trials.workers) > 4:
            trials.length = 30

    trials.on_start = shorten
    trial = bench_over(trials).compare(BASELINE, FAST, 3)
    assert trial.failure is not None
    assert trial.failure.startswith("the script ended in mid-comparison")


def test_enough_ends_it_early() -> None:
    seen: list[int] = []

    def enough(log_ratios: list[float]) -> bool:
        seen.append(len(log_ratios))
        return len(log_ratios) == 3

    trial = bench_over(PaperTrials()).compare(BASELINE, FAST, 9, enough)
    assert seen == [1, 2, 3]
    assert len(trial.log_ratios) == 3


def test_without_enough_all_pairs_are_run_however_clear_it_is() -> None:
    trial = bench_over(PaperTrials(effects={"malloc": 0.1})).compare(BASELINE, FAST, 7)
    assert len(trial.log_ratios) == 7


def test_blocks_and_warm_up_are_whole_cycles() -> None:
    trials = PaperTrials()
    bench_over(trials, Rhythm(0, 0, cycle=6, cycle_seconds=0.06)).compare(BASELINE, FAST, 1)
    counts = [int(entry.split(" x ")[1]) for entry in trials.log if " x " in entry]
    assert counts
    assert all(count % 6 == 0 for count in counts)


def test_evaluations_in_every_block_are_named() -> None:
    trials = PaperTrials(evaluating=True)
    trial = bench_over(trials, Rhythm(0, 0, cycle=2, cycle_seconds=0.02)).compare(BASELINE, FAST, 1)
    assert trial.failure == TOO_FEW_REGULAR


@pytest.mark.parametrize("loss", [math.nan, math.inf])
def test_a_loss_that_is_no_number_fails(loss: float) -> None:
    def ruin(worker: PaperWorker) -> None:
        worker.losses = (loss if worker.plan else 1.0,)

    trial = bench_over(PaperTrials(on_steps=ruin)).compare(BASELINE, FAST, 4)
    assert trial.failure == "the loss is no longer a number"
    assert trial.ratio is None


def test_a_technique_without_effect_fails() -> None:
    trial = bench_over(PaperTrials(effects={"malloc": 0.5}, effective=False)).compare(BASELINE, FAST, 2)
    assert trial.failure == "malloc had no effect (counted)"
    assert trial.ratio is None


def test_a_technique_without_effect_in_the_first_pair_is_not_measured_further() -> None:
    trials = PaperTrials(effects={"malloc": 0.5}, effective=False)
    bench_over(trials).compare(BASELINE, FAST, 10)
    assert len(trials.workers) == 2


@pytest.mark.parametrize(
    ("how", "detail", "expected"),
    [
        ("raised", "Traceback ...\nMemoryError: no room\n", "the script raised MemoryError: no room"),
        ("exit", "3", "the script ended with exit code 3"),
    ],
)
def test_a_script_that_fails_is_a_failed_trial(how: str, detail: str, expected: str) -> None:
    trials = PaperTrials(length=40, how=how, detail=detail)
    trial = bench_over(trials).compare(BASELINE, FAST, 4)
    assert trial.failure == expected
    assert trial.ratio is None
    assert all(worker.stopped for worker in trials.workers)


@pytest.mark.parametrize("error", [WorkerError("killed by SIGKILL"), PlanRefused("malloc", "not here")])
def test_a_worker_that_fails_in_a_later_pair_fails_the_trial(error: Exception) -> None:
    def fail(worker: PaperWorker) -> None:
        if worker is trials.workers[0] or len(trials.workers) <= 2:
            return
        raise error

    trials = PaperTrials(on_start=fail)
    trial = bench_over(trials).compare(BASELINE, FAST, 4)
    assert trial.failure == str(error)
    assert trial.ratio is None
    assert len(trial.log_ratios) == 1
    assert all(worker.stopped for worker in trials.workers)


def test_missing_protection_is_no_matter_of_the_plan() -> None:
    def refuse(worker: PaperWorker) -> None:
        raise Refusal("trials cannot be kept from writing files here")

    trials = PaperTrials(on_start=refuse)
    with pytest.raises(Refusal):
        bench_over(trials).compare(BASELINE, FAST, 1)
    assert all(worker.stopped for worker in trials.workers)


def test_the_seconds_a_pair_takes_are_known_after_the_first() -> None:
    bench = bench_over(PaperTrials())
    assert bench.times.usual is None
    bench.compare(BASELINE, FAST, 1)
    assert bench.times.usual is not None
    assert bench.times.usual > 0


def test_what_a_pair_takes_is_told_without_what_others_made_it_wait() -> None:
    now, quiet = [0.0], Quiet()
    took = iter([(1.0, 0.0), (1.0, 0.0), (51.0, 50.0), (1.0, 0.0), (21.0, 0.0), (1.0, 0.0)])

    def start(_: object) -> None:
        seconds, waited = next(took)
        now[0] += seconds
        quiet.spent_seconds += waited

    trials = PaperTrials(on_start=start, limit=Limit(clock=lambda: now[0]))
    bench = PairsBench(trials.as_trials(), RHYTHM, quiet)
    bench.compare(BASELINE, FAST, 3)
    assert bench.times.usual == 2.0


def test_what_begins_late_is_timed_only_once_it_is_in_force() -> None:
    trials = PaperTrials()
    bench = bench_over(trials)
    usual = bench.steps_needed
    late = Plan({"prune": {"ratio": 0.3, "after": 50}})
    bench.compare(BASELINE, late, 1)
    assert bench.steps_needed == usual + 50
    assert {worker.taken for worker in trials.workers} == {usual + 50}
    bench.compare(BASELINE, Plan({"bf16": {}}), 1)
    assert bench.steps_needed == usual


@pytest.mark.attack("truth")
@pytest.mark.parametrize("times", [11.0, 1000.0])
def test_what_is_many_times_slower_is_dropped_before_its_first_block(times: float) -> None:
    trials = PaperTrials(effects={"malloc": times})
    trial = bench_over(trials).compare(BASELINE, FAST, 5)
    assert trial.failure == f"about {times:.0f} times slower: its first steps were enough to see it"
    assert trials.blocks(BLOCK) == []
    assert len(trials.workers) == 2


def slow_at_first(steps: int) -> Callable[[PaperWorker], None]:
    """Until it has taken so many steps, the plan's process is kept from its processors."""

    def disturb(worker: PaperWorker) -> None:
        if worker.plan == FAST:
            worker.speed = 2.0 if worker.taken < steps else 0.01

    return disturb


def test_what_was_slow_for_a_moment_is_timed() -> None:
    trials = PaperTrials(on_steps=slow_at_first(WARMUP))
    trial = bench_over(trials).compare(BASELINE, FAST, 2)
    assert trial.ratio is not None
    assert trial.ratio.value == pytest.approx(1.0)


def test_what_was_slow_while_other_programs_ran_is_timed() -> None:
    """They keep both CPUs busy for all of the time."""
    now = itertools.count()
    busy = Quiet(lambda: ProcessorTime(at=(at := float(next(now))), busy=2 * at, own=at / 2), cpus=2)
    trials = PaperTrials(on_steps=slow_at_first(WARMUP + 6))
    trial = PairsBench(trials.as_trials(), RHYTHM, busy).compare(BASELINE, FAST, 2)
    assert trial.ratio is not None
    assert trial.failure is None


def test_a_short_script_gets_no_second_look() -> None:
    bench = bench_over(trials := PaperTrials(effects={"malloc": 50.0}))
    length = bench.steps_needed
    trials.length = length
    short = PairsBench(trials.as_trials(), replace(RHYTHM, steps_in_all=length))
    trial = short.compare(BASELINE, FAST, 2)
    assert trial.failure == "about 50 times slower: its first steps were enough to see it"


@pytest.mark.parametrize("times", [0.01, 2.0, 9.0])
def test_what_is_not_so_slow_is_timed(times: float) -> None:
    trial = bench_over(PaperTrials(effects={"malloc": times})).compare(BASELINE, FAST, 2)
    assert trial.ratio is not None
    assert trial.ratio.value == pytest.approx(times)


def test_a_confirmation_is_foreseen_with_plain_training_in_it() -> None:
    """The search compares plans that are both faster; a claim compares one with plain training."""
    times = PairTimes()
    assert times.usual is times.with_plain_training is None
    for seconds, step_seconds in ((4.0, 0.1), (3.0, 0.06), (3.0, 0.2)):
        times.took(seconds)
        times.compared(50, 0.1, step_seconds)
    assert times.usual == 3.0
    assert times.with_plain_training == 4.0  # of 4, 5 and 3
