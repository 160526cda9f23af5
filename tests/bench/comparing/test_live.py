"""The live bench over paper workers: what it asks of them and what it makes of their answers."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from hasten.bench.base import late
from hasten.bench.comparing import abba_blocks
from hasten.bench.comparing.live import LiveBench
from hasten.bench.comparing.steps import TOO_FEW_REGULAR, Rhythm
from hasten.bench.workers.ending import PlanRefused
from hasten.errors import Refusal, WorkerError
from hasten.records.observation import Step
from hasten.records.plan import BASELINE, Plan
from tests.bench.clocked_workers import ClockedTrials
from tests.bench.paper_workers import PaperTrials, PaperWorker

RHYTHM = Rhythm(evaluations=0, restarts=0, cycle=1, cycle_seconds=0.01)
BLOCK = 11  # steps: one discarded and a tenth of a second
FAST = Plan({"bf16": {}})
STEADY = Plan({"malloc": {}})
AFTER = Step(0.1, None, 0, 0, {}, (), (0, 0, 0))  # what comes after a script's last step


def bench_over(trials: PaperTrials, rhythm: Rhythm = RHYTHM) -> LiveBench:
    return LiveBench(trials.as_trials(), rhythm)


def test_the_ratio_is_the_effect() -> None:
    trials = PaperTrials(effects={"bf16": 0.8})
    trial = bench_over(trials).compare(BASELINE, FAST, 0.0)
    assert trial.failure is None
    assert trial.method == "live"
    assert trial.ratio is not None
    assert trial.ratio.value == pytest.approx(0.8)
    assert trial.ratio.unit == "ABBA blocks"
    assert (trial.step_seconds_a, trial.step_seconds_b) == pytest.approx((0.01, 0.008))
    assert [proof.technique for proof in trial.proofs] == ["bf16"]
    assert trial.setup_seconds == 1.5


def test_blocks_come_in_the_order_a_b_b_a_and_b_a_a_b() -> None:
    trials = PaperTrials(effects={"bf16": 0.8})
    bench_over(trials).compare(BASELINE, FAST, 0.0)
    assert len(trials.workers) == 1
    a, b = "baseline", "bf16"
    assert trials.blocks(BLOCK)[:8] == [a, b, b, a, b, a, a, b]


def test_an_abba_block_in_which_another_training_begins_does_not_count() -> None:
    """One plan's blocks would be of a model, and the other's of the next. Step 30 is in the second block."""
    trials = PaperTrials(effects={"bf16": 0.8}, models_at=frozenset({1, 30}))
    trial = bench_over(trials).compare(BASELINE, FAST, 0.0)
    assert trial.failure is None
    assert len(trials.blocks(BLOCK)) == 4 * (len(trial.log_ratios) + 1)


def test_effects_that_are_counted_anew_with_another_model_are_not_missed() -> None:
    """The next fold of a cross-validation begins in the last step of a block: nothing has acted since."""
    first = PaperTrials(effects={"bf16": 0.8})
    bench_over(first).compare(BASELINE, FAST, 0.0)
    ends, taken = [], 1
    for plan, steps in (entry.split(" x ") for entry in first.log):
        taken += int(steps)
        ends += [taken] if (plan, steps) == ("bf16", str(BLOCK)) else []
    trials = PaperTrials(effects={"bf16": 0.8}, models_at=frozenset({ends[3]}))  # the end of B A A B
    trial = bench_over(trials).compare(BASELINE, FAST, 0.0)
    assert trial.failure is None
    assert [proof.effective for proof in trial.proofs] == [True]


def test_where_every_block_has_another_model_nothing_can_be_told() -> None:
    trials = PaperTrials(effects={"bf16": 0.8}, models_at=frozenset(range(0, 10**4, 9)))
    assert bench_over(trials).compare(BASELINE, FAST, 0.0).failure == TOO_FEW_REGULAR


def test_a_drift_of_the_machine_is_no_effect() -> None:
    """Every step is a little slower than the one before; the order of blocks cancels that."""

    def slow_down(worker: PaperWorker) -> None:
        worker.speed *= 1.01

    trial = bench_over(PaperTrials(on_steps=slow_down)).compare(BASELINE, FAST, 0.0)
    assert trial.ratio is not None
    assert abs(math.log(trial.ratio.value)) < 0.005
    assert trial.ratio.low < 1 < trial.ratio.high


def test_a_plan_is_settled_before_it_is_first_timed() -> None:
    trials = PaperTrials(effects={"bf16": 0.8})
    bench_over(trials).compare(BASELINE, FAST, 0.0)
    assert trials.log[:4] == ["baseline x 10", "baseline x 3", f"baseline x {BLOCK}", "bf16 x 3"]
    assert trials.log.count("bf16 x 3") == 1


def test_a_block_is_made_of_whole_cycles() -> None:
    trials = PaperTrials()
    bench_over(trials, Rhythm(0, 0, cycle=6, cycle_seconds=0.06)).compare(BASELINE, FAST, 0.0)
    assert all(int(entry.split(" x ")[1]) % 6 == 0 for entry in trials.log[1:])


def test_a_worker_that_trains_alone_keeps_its_memory() -> None:
    trials = PaperTrials()
    bench_over(trials).compare(BASELINE, FAST, 0.0)
    assert trials.at_once == [1]


LATE = Plan({"denormals": {}})


def late_bench(trials: PaperTrials, rhythm: Rhythm = RHYTHM) -> LiveBench:
    bench = bench_over(trials, rhythm)
    bench.shows_after = {"denormals": 300}
    return bench


def test_what_shows_late_is_compared_late_in_the_same_training() -> None:
    trials = PaperTrials(effects={"denormals": 0.5})
    bench = late_bench(trials)
    bench.compare(BASELINE, FAST, 0.0)
    (worker,) = trials.workers
    before = worker.taken
    trial = bench.compare(FAST, FAST.adding("denormals", {}), 0.0)
    assert trial.ratio is not None
    assert trial.ratio.value == pytest.approx(0.5)
    assert trial.late == 300
    assert trials.workers == [worker]
    assert f"bf16 x {300 - before}" in trials.log, "under the plan that it may join"
    assert worker.log.index(f"bf16 x {300 - before}") < worker.log.index("bf16 + denormals x 3")


def test_it_waits_only_once_and_only_for_what_shows_late() -> None:
    trials = PaperTrials(effects={"denormals": 0.5})
    bench = late_bench(trials)
    assert bench.compare(BASELINE, FAST, 0.0).late == 0
    assert bench.seconds_until_it_shows(BASELINE, FAST, 0.01) == 0
    assert bench.seconds_until_it_shows(BASELINE, LATE, 0.01) == pytest.approx(
        (300 - trials.workers[0].taken) * 0.01
    )
    bench.compare(BASELINE, LATE, 0.0)
    assert bench.seconds_until_it_shows(BASELINE, LATE, 0.01) == 0
    both = LATE.adding("bf16", {})
    how = bench.shows_after
    assert late(BASELINE, both, how) == 0, "something else is compared as well, and gains from the start"
    assert late(LATE, both, how) == 0
    assert late(both, FAST, how) == 300, "without it"


def test_a_script_that_ends_before_it_shows_says_so() -> None:
    trials = PaperTrials(effects={"denormals": 0.5}, length=200)
    trial = late_bench(trials).compare(BASELINE, LATE, 0.0)
    assert trial.failure == "it can gain something after 300 steps, and the script takes 200"


def test_it_is_not_even_started_where_it_is_known_to_end_before() -> None:
    trials = PaperTrials(effects={"denormals": 0.5}, length=200)
    bench = late_bench(trials)
    bench._ends.script_ended(200)
    assert "300 steps" in str(bench.compare(BASELINE, LATE, 0.0).failure)
    assert trials.workers == []


def test_steps_before_the_latest_model_are_not_of_this_training() -> None:
    """Of a cross-validation: the averages of each fold begin anew."""
    trials = PaperTrials(effects={"denormals": 0.5}, models_at=frozenset({1, 250}))
    trial = late_bench(trials).compare(BASELINE, LATE, 0.0)
    assert trial.failure is None
    (worker,) = trials.workers
    assert worker.taken >= 250 + 300


def test_each_process_of_a_short_script_waits_anew() -> None:
    rhythm = replace(RHYTHM, steps_in_all=300 + 17 + 4 * BLOCK)
    bench = late_bench(PaperTrials(length=300 + 17 + 4 * BLOCK), rhythm)
    assert bench.seconds_until_it_shows(BASELINE, LATE, 0.01) == pytest.approx(5 * 300 * 0.01)


def test_what_comes_after_each_end_of_a_short_script_is_compared_in_the_next() -> None:
    trials = PaperTrials(effects={"denormals": 0.5}, length=300 + 4 * BLOCK + 20)
    trial = late_bench(trials, replace(RHYTHM, steps_in_all=trials.length)).compare(BASELINE, LATE, 0.0)
    assert trial.failure is None
    assert len(trials.workers) > 1
    assert all(worker.taken > 300 for worker in trials.workers)


def test_no_abba_block_spans_two_workers() -> None:
    """Each worker has a speed of its own, and each script lasts for an ABBA block and a half."""
    trials = PaperTrials(
        speeds=(0.01, 0.02, 0.03, 0.04, 0.06, 0.09), effects={"bf16": 0.5}, length=17 + 6 * BLOCK + 5
    )
    trial = bench_over(trials).compare(BASELINE, FAST, 0.0)
    assert trial.failure is None
    assert trial.log_ratios == pytest.approx([math.log(0.5)] * 5)
    assert len(trials.workers) == 5
    assert all(worker.stopped for worker in trials.workers[:4])
    assert trials.log.count("baseline x 3") == trials.log.count("bf16 x 3") == 5, "each settles anew"


def test_a_process_is_not_trained_to_an_end_that_is_known() -> None:
    """Each script lasts for an ABBA block and a half; what comes after the last step is seen once."""
    trials = PaperTrials(effects={"bf16": 0.5}, length=17 + 6 * BLOCK + 5, rest=AFTER)
    trial = bench_over(trials).compare(BASELINE, FAST, 0.0)
    assert trial.log_ratios == pytest.approx([math.log(0.5)] * 5)
    assert [len(worker.history) for worker in trials.workers] == [trials.length, *[17 + 4 * BLOCK] * 4]


def test_a_process_is_trained_to_an_end_at_which_a_comparison_just_fits() -> None:
    trials = PaperTrials(effects={"bf16": 0.5}, length=17 + 8 * BLOCK, rest=AFTER)
    bench_over(trials).compare(BASELINE, FAST, 0.0)
    assert [len(worker.history) for worker in trials.workers] == [
        trials.length,
        trials.length,
        17 + 4 * BLOCK,
    ]


def test_an_end_is_seen_once_under_the_plans_that_are_compared() -> None:
    trials = PaperTrials(effects={"bf16": 0.5}, length=17 + 6 * BLOCK + 5, rest=AFTER)
    bench = bench_over(trials)
    bench.compare(BASELINE, FAST, 0.0)
    started = len(trials.workers)
    bench.compare(STEADY, Plan({**STEADY.techniques, **FAST.techniques}), 0.0)
    lengths = [len(worker.history) for worker in trials.workers[started:]]
    assert lengths == [trials.length, *[17 + 4 * BLOCK] * 2]


def test_blocks_shrink_until_a_short_script_has_room_for_a_abba_block() -> None:
    """1 + 10 + 2 x 3 steps untimed leave 4 blocks of 1 + 7 steps."""
    trials = PaperTrials(effects={"bf16": 0.5}, length=17 + 4 * 8 + 3)
    trial = bench_over(trials).compare(BASELINE, FAST, 0.0)
    assert trial.failure is None
    assert trial.log_ratios == pytest.approx([math.log(0.5)] * 5)
    assert len(trials.workers) == 6, "one to learn how long it is"
    assert trials.log[-1] == "baseline x 8"


def test_of_a_short_script_three_abba_blocks_are_enough_each_in_a_process_of_its_own() -> None:
    trials = PaperTrials(effects={"bf16": 0.5}, length=25)
    bench = bench_over(trials, replace(RHYTHM, steps_in_all=25))
    assert bench.starts(BASELINE) == 3
    assert bench.least_steps(BASELINE) == 3 * (1 + 6 + 3 + 4 * 3)
    trial = bench.compare(BASELINE, FAST, 0.0)
    assert trial.log_ratios == pytest.approx([math.log(0.5)] * 3)
    assert len(trials.workers) == 3


def test_the_length_of_a_changed_training_is_not_taken_for_the_scripts() -> None:
    larger = Plan({"batch_size": {"factor": 2}})
    short = 17 + 4 * 8 + 3
    trials = PaperTrials(effects={"bf16": 0.5}, length=short)
    bench = bench_over(trials)
    trial = bench.compare(larger, Plan({**larger.techniques, **FAST.techniques}), 0.0)
    assert (trial.failure, trial.script_steps) == (None, None)
    bench.close()
    trials.length = 10**9
    trial = bench.compare(BASELINE, FAST, 0.0)
    assert trial.script_steps is None
    assert trials.log[-1] == f"baseline x {BLOCK}", "usual blocks again"


def test_a_script_too_short_for_the_smallest_abba_block_fails() -> None:
    trials = PaperTrials(length=15)
    trial = bench_over(trials).compare(BASELINE, FAST, 1e9)
    assert trial.failure == "the script ends after 15 steps, and one comparison takes 16"
    assert trial.ratio is None
    assert len(trials.workers) == 1


@pytest.mark.parametrize(("length", "begins"), [(22, "baseline x 5"), (16, "baseline x 1")])
def test_where_the_script_is_very_short_fewer_of_its_steps_are_untimed(length: int, begins: str) -> None:
    """Blocks of 3 take 12 of them, and before these 1 + 5 + 6 would be untimed in a script of 22."""
    trials = PaperTrials(effects={"bf16": 0.5}, length=length)
    bench = bench_over(trials, replace(RHYTHM, steps_in_all=length))
    trial = bench.compare(BASELINE, FAST, 0.0)
    assert trial.failure is None
    assert trial.log_ratios == pytest.approx([math.log(0.5)] * 3)
    assert begins in trials.log
    assert len(trials.workers) == 3


def test_a_script_of_a_dozen_slow_steps_is_compared() -> None:
    trials = PaperTrials((1.0,), effects={"bf16": 0.5}, length=12)
    slow = replace(RHYTHM, cycle_seconds=1.0, steps_in_all=12)
    trial = bench_over(trials, slow).compare(BASELINE, FAST, 0.0)
    assert trial.failure is None
    assert trial.log_ratios == pytest.approx([math.log(0.5)] * 3)


def test_a_script_that_became_shorter_goes_on_with_shorter_blocks() -> None:
    def shorten(worker: PaperWorker) -> None:
        trials.length = 17 + (5 if len(trials.workers) == 1 else 3) * BLOCK

    trials = PaperTrials(on_start=shorten)
    trial = bench_over(trials).compare(BASELINE, FAST, 1e9)
    assert trial.failure is None
    assert len(trial.log_ratios) == 5
    assert len(trials.workers) == 6, "the second is too short, and tells by how much"


def test_the_next_trial_goes_on_in_the_same_worker() -> None:
    trials = PaperTrials(effects={"bf16": 0.8})
    bench = bench_over(trials)
    bench.compare(BASELINE, FAST, 0.0)
    bench.compare(BASELINE, Plan({"channels_last": {}}), 0.0)
    assert len(trials.workers) == 1
    assert not trials.workers[0].stopped


def test_a_change_for_the_process_needs_a_new_worker() -> None:
    trials = PaperTrials(effects={"bf16": 0.8})
    bench = bench_over(trials)
    bench.compare(BASELINE, FAST, 0.0)
    bench.compare(STEADY, Plan({"malloc": {}, "bf16": {}}), 0.0)
    assert len(trials.workers) == 2
    assert trials.workers[0].stopped
    bench.close()
    assert trials.workers[1].stopped


def test_a_technique_that_cannot_be_switched_on_fails_with_its_reason() -> None:
    trials = PaperTrials(refused={"bf16": "no such instructions"})
    trial = bench_over(trials).compare(BASELINE, FAST, 0.0)
    assert trial.failure == "bf16: no such instructions"
    assert trial.ratio is None


def test_a_technique_without_effect_fails() -> None:
    trial = bench_over(PaperTrials(effects={"bf16": 0.5}, effective=False)).compare(BASELINE, FAST, 0.0)
    assert trial.failure == "bf16 had no effect (counted)"
    assert trial.ratio is None


def test_a_technique_without_effect_in_its_first_block_is_not_measured_further() -> None:
    trials = PaperTrials(effects={"bf16": 0.5}, effective=False)
    trial = bench_over(trials).compare(BASELINE, FAST, 60.0)
    assert (trial.failure, trial.log_ratios) == ("bf16 had no effect (counted)", ())
    _, *blocks = [line for line in trials.workers[0].log if line.startswith("bf16")]
    assert len(blocks) == 1


@pytest.mark.parametrize("loss", [math.nan, math.inf])
def test_a_loss_that_is_no_number_fails_and_does_not_spoil_the_next_trial(loss: float) -> None:
    def ruin(worker: PaperWorker) -> None:
        worker.losses = (loss,) if "bf16" in worker.plan.techniques else worker.losses

    bench = bench_over(PaperTrials(on_steps=ruin))
    trial = bench.compare(BASELINE, FAST, 0.0)
    assert trial.failure == "the loss is no longer a number"
    assert trial.ratio is None
    assert bench.compare(BASELINE, Plan({"channels_last": {}}), 0.0).failure is None


@pytest.mark.parametrize(
    ("how", "detail", "expected"),
    [
        ("raised", "Traceback ...\nValueError: wrong shape\n", "the script raised ValueError: wrong shape"),
        ("exit", "3", "the script ended with exit code 3"),
    ],
)
def test_a_script_that_fails_under_a_plan_is_a_failed_trial(how: str, detail: str, expected: str) -> None:
    trials = PaperTrials(length=30, how=how, detail=detail)
    bench = bench_over(trials)
    trial = bench.compare(BASELINE, FAST, 0.0)
    assert trial.failure == expected
    assert trial.ratio is None
    assert trials.workers[0].stopped
    trials.length = 10**9
    assert bench.compare(BASELINE, FAST, 0.0).failure is None


def test_a_crash_is_a_failed_trial_and_the_bench_goes_on() -> None:
    def crash(worker: PaperWorker) -> None:
        if worker is trials.workers[0] and worker.taken > 50:
            raise WorkerError("the script's process was killed by SIGKILL")

    trials = PaperTrials(on_steps=crash)
    bench = bench_over(trials)
    trial = bench.compare(BASELINE, FAST, 0.0)
    assert trial.failure == "the script's process was killed by SIGKILL"
    assert trials.workers[0].stopped
    assert bench.compare(BASELINE, FAST, 0.0).failure is None


def test_a_plan_refused_at_the_start_is_a_failed_trial() -> None:
    def refuse(worker: PaperWorker) -> None:
        raise PlanRefused("malloc", "not this one")

    trials = PaperTrials(on_start=refuse)
    trial = bench_over(trials).compare(STEADY, Plan({"malloc": {}, "bf16": {}}), 0.0)
    assert trial.failure == "malloc: not this one"
    assert trials.workers[0].stopped


def test_missing_protection_is_no_matter_of_the_plan() -> None:
    def refuse(worker: PaperWorker) -> None:
        raise Refusal("trials cannot be kept from writing files here")

    with pytest.raises(Refusal):
        bench_over(PaperTrials(on_start=refuse)).compare(BASELINE, FAST, 0.0)


def test_a_script_without_regular_cycles_fails_and_does_not_go_on_for_ever() -> None:
    """An evaluation falls into every second step, and a cycle has two."""
    trials = PaperTrials(evaluating=True)
    bench = bench_over(trials, Rhythm(0, 0, cycle=2, cycle_seconds=0.02))
    trial = bench.compare(BASELINE, FAST, 0.0)
    assert trial.ratio is None
    assert trial.failure == TOO_FEW_REGULAR
    trained = len(trials.log)
    assert bench.compare(BASELINE, Plan({"channels_last": {}}), 0.0).failure == TOO_FEW_REGULAR
    assert len(trials.log) == trained, "it was seen once, and takes minutes"


@pytest.mark.parametrize("pass_steps", [100, 60, 24, 20, 13, 6])
def test_the_ends_of_passes_fall_into_no_block_or_into_all(pass_steps: int) -> None:
    """The loader's workers have nothing left to do then. Where passes are short, each block is of whole ones:
    of a reference script with 13 steps in each, comparisons could not tell gains under 53%.
    """
    trials = PaperTrials(effects={"bf16": 0.8}, ends=(pass_steps, 0.4))
    rhythm = Rhythm(0, 0, cycle=1, cycle_seconds=0.01, epoch_steps=pass_steps, bursts=2)
    trial = bench_over(trials, rhythm).compare(BASELINE, FAST, 0.0)
    assert trial.failure is None
    assert trial.log_ratios == pytest.approx([math.log(0.8)] * len(trial.log_ratios), abs=0.02)


def test_where_a_process_has_only_ends_of_passes_these_are_timed() -> None:
    """As of a second loader, of which workers make all batches ahead."""
    rhythm = Rhythm(0, 0, cycle=1, cycle_seconds=0.01, epoch_steps=100, bursts=2)
    trial = bench_over(PaperTrials(effects={"bf16": 0.8}, ends=(5, 0.9)), rhythm).compare(BASELINE, FAST, 0.0)
    assert trial.failure is None
    assert trial.log_ratios == pytest.approx([math.log(0.8)] * len(trial.log_ratios))


def test_a_part_of_a_training_that_cannot_be_timed_says_nothing_of_a_new_process() -> None:
    """Which begins where blocks were timed before."""
    trials = PaperTrials(effects={"bf16": 0.8})
    bench = bench_over(trials, Rhythm(0, 0, cycle=2, cycle_seconds=0.02))
    assert bench.compare(BASELINE, FAST, 0.0).failure is None
    trials.evaluating = True
    assert bench.compare(BASELINE, FAST, 0.0).failure == TOO_FEW_REGULAR
    trials.evaluating = False
    assert bench.compare(BASELINE, FAST, 0.0).failure is None
    assert len(trials.workers) == 2, "the one that had come to this part is stopped"


def test_what_a_training_does_in_every_step_later_is_usual_then() -> None:
    """A DQN draws its actions at random at first; later its network is asked for them between two steps."""
    trials = PaperTrials(effects={"bf16": 0.8}, asks_from=150)
    trial = bench_over(trials).compare(BASELINE, FAST, 0.0)
    assert trial.failure is None
    assert trial.ratio is not None
    assert trial.ratio.value == pytest.approx(0.8)
    assert trial.ratio.count >= 5


def noisy(spread: float) -> PaperTrials:
    """Speeds that scatter from block to block, always in the same way."""
    turn = iter(range(10**6))

    def scatter(worker: PaperWorker) -> None:
        worker.speed = 0.01 * (1 + spread * math.sin(12.9898 * next(turn)))

    return PaperTrials(on_steps=scatter)


def test_a_clear_difference_ends_early_and_an_unclear_one_at_the_most() -> None:
    clear = bench_over(PaperTrials(effects={"bf16": 0.8})).compare(BASELINE, FAST, 1e9)
    assert len(clear.log_ratios) == abba_blocks.LEAST_ABBA_BLOCKS
    unclear = bench_over(noisy(0.2)).compare(BASELINE, FAST, 1e9)
    assert len(unclear.log_ratios) == abba_blocks.MOST_ABBA_BLOCKS


def test_of_slow_steps_three_abba_blocks_of_one_timed_step_are_enough() -> None:
    trials = PaperTrials((0.6,), effects={"bf16": 0.8})
    bench = bench_over(trials, Rhythm(0, 0, cycle=1, cycle_seconds=0.6))
    assert len(bench.compare(BASELINE, FAST, 0.0).log_ratios) == 3
    assert trials.workers[0].taken == 1 + 3 + 2 * 3 + 3 * 4 * 2


def test_a_process_warms_up_for_whole_cycles_if_they_are_slow() -> None:
    trials = PaperTrials((0.6,))
    bench_over(trials, Rhythm(0, 0, cycle=2, cycle_seconds=1.2)).compare(BASELINE, FAST, 0.0)
    assert trials.log[0] == "baseline x 6"


def test_the_time_given_ends_an_unclear_trial_but_not_before_the_least() -> None:
    trial = bench_over(noisy(0.2)).compare(BASELINE, FAST, 0.0)
    assert len(trial.log_ratios) == abba_blocks.LEAST_ABBA_BLOCKS


# ---- what is far too slow
def test_a_set_up_that_takes_far_longer_than_the_comparison_has_is_not_waited_for() -> None:
    """Compiling a language model took all that a search had left."""
    trials = ClockedTrials(effects={"bf16": 0.8})
    set_up = set()

    def trained(worker: PaperWorker) -> None:
        if worker.plan == FAST and id(worker) not in set_up:
            set_up.add(id(worker))
            trials.spend(70.0)

    trials.on_steps = trained
    bench = bench_over(trials)
    trial = bench.compare(BASELINE, FAST, 5.0)
    assert trial.failure == "its set-up takes longer than 40 s: a longer --budget waits for it"
    assert not trial.cut_short
    assert trial.seconds < 60.0
    assert trials.workers[0].stopped
    assert bench.compare(BASELINE, FAST, 50.0).failure is None


def test_compiling_anew_with_every_batch_is_not_waited_for() -> None:
    """The sentences of a data set differ in length: 20 steps took 53 s, those before them 16."""
    trials = ClockedTrials(effects={"bf16": 0.8})
    trials.on_steps = lambda worker: trials.spend(16.0 if worker.plan == FAST else 0.0)
    bench = bench_over(trials)
    trial = bench.compare(BASELINE, FAST, 5.0)
    assert trial.failure == (
        "its set-up, with the first steps that were timed, takes longer than 40 s: a longer --budget waits "
        "for it"
    )
    assert trial.seconds < 60.0
    assert trials.workers[0].stopped


def test_the_set_up_of_what_was_adopted_is_waited_for() -> None:
    """Only what is tried may take too long: otherwise nothing could join a plan that compiles."""
    trials = ClockedTrials(effects={"bf16": 0.8})
    trials.on_steps = lambda worker: trials.spend(70.0 if worker.plan == BASELINE else 0.0)
    trial = bench_over(trials).compare(BASELINE, FAST, 5.0)
    assert trial.failure is None
    assert trial.ratio is not None


@pytest.mark.attack("truth")
@pytest.mark.parametrize("times", [11.0, 100.0, 1e6])
@pytest.mark.parametrize("cycle", [1, 4])
def test_what_is_many_times_slower_is_dropped_before_a_block_is_over(times: float, cycle: int) -> None:
    trials = PaperTrials(effects={"bf16": times})
    trial = bench_over(trials, Rhythm(0, 0, cycle, 0.01 * cycle)).compare(BASELINE, FAST, 1e9)
    assert trial.failure == f"about {times:.0f} times slower: its first steps were enough to see it"
    assert trial.ratio is None
    assert sum(int(entry.split(" x ")[1]) for entry in trials.log if entry.startswith("bf16")) == 6 * cycle


@pytest.mark.parametrize(
    ("speed", "times", "measured"),
    [(0.5, 5.0, True), (0.5, 9.0, False), (0.5, 40.0, False), (0.2, 15.0, False)],
)
def test_steps_of_a_second_are_looked_at_one_by_one(speed: float, times: float, measured: bool) -> None:
    """A text CNN's convolutions took 9 times as long channels last, and 35 times in bfloat16: minutes. A
    ResNet's took 15 times as long in float16, 3 s a step: 40 s were waited.
    """
    trials = PaperTrials(speeds=(speed,), effects={"bf16": times})
    trial = bench_over(trials).compare(BASELINE, FAST, 1e9)
    if measured:
        assert trial.ratio is not None
        return
    assert trial.failure == f"about {times:.0f} times slower: its first steps were enough to see it"
    assert [entry for entry in trials.log if entry.startswith("bf16")] == ["bf16 x 1", "bf16 x 1"]


@pytest.mark.parametrize(
    ("slow", "log"), [(1, ["bf16 x 1", "bf16 x 1", "bf16 x 1"]), (0, ["bf16 x 1", "bf16 x 2"])]
)
def test_a_first_step_that_sets_something_up_is_not_held_against_it(slow: int, log: list[str]) -> None:
    """As many steps settle as without it."""
    trials, first = PaperTrials(speeds=(0.2,), effects={"bf16": 0.8}), list[int]()

    def slower(worker: PaperWorker) -> None:
        if worker.plan == FAST:
            worker.speed = 0.2 * (20.0 if len(first) < slow else 1.0)
            first.append(1)

    trials.on_steps = slower
    trial = bench_over(trials).compare(BASELINE, FAST, 1e9)
    assert trial.failure is None
    assert [entry for entry in trials.log if entry.startswith("bf16")][: len(log)] == log


@pytest.mark.parametrize(
    ("speed", "technique", "failure"),
    [
        (0.5, "bf16", "more than 41 times slower: its first steps were stopped"),
        (3.0, "bf16", "more than 11 times slower: its first steps were stopped"),
        (0.01, "bf16", None),
        (0.5, "compile", None),
    ],
)
def test_a_first_step_that_takes_far_too_long_is_stopped(
    speed: float, technique: str, failure: str | None
) -> None:
    """Where steps are short or something compiles, it is its set-up."""
    slow, set_up = Plan({technique: {}}), set()
    trials = ClockedTrials(speeds=(speed,), effects={technique: 0.8})

    def trained(worker: PaperWorker) -> None:
        if worker.plan == slow and id(worker) not in set_up:
            set_up.add(id(worker))
            trials.spend(25.0 if technique == "compile" else 35.0)

    trials.on_steps = trained
    trial = bench_over(trials).compare(BASELINE, slow, 5.0)
    assert trial.failure == failure


def test_an_evaluation_in_a_block_is_no_slow_step() -> None:
    """It took 25 s, and steps half a second."""
    trials = ClockedTrials(speeds=(0.5,), effects={"bf16": 0.8})
    seen: list[int] = []

    def trained(worker: PaperWorker) -> None:
        if worker.plan == FAST:
            seen.append(1)
            trials.spend(25.0 if len(seen) == 4 else 0.0)

    trials.on_steps = trained
    trial = bench_over(trials).compare(BASELINE, FAST, 5.0)
    assert trial.failure is None
    assert len(seen) > 4


COMPILED = Plan({"compile": {}})


def compiling(seconds: float) -> ClockedTrials:
    """Each worker compiles for so long, in the first steps under that plan."""
    trials, set_up = ClockedTrials(effects={"compile": 0.5}), set[int]()

    def trained(worker: PaperWorker) -> None:
        if worker.plan == COMPILED and id(worker) not in set_up:
            set_up.add(id(worker))
            trials.spend(seconds)

    trials.on_steps = trained
    return trials


@pytest.mark.parametrize("planned", [False, True])
@pytest.mark.parametrize(("steps", "stopped"), [(450, True), (1500, True), (None, False), (4500, False)])
def test_a_set_up_that_takes_most_of_a_whole_run_is_not_waited_for(
    steps: int | None, stopped: bool, planned: bool
) -> None:
    """Compiling took 40 s of a budget, for a script whose steps take 5 s in all."""
    trials = compiling(12.0)
    told = (None, steps) if planned else (steps, None)  # by its loops, or by a process that came to its end
    rhythm = Rhythm(0, 0, 1, 0.01, steps_in_all=told[0], planned_steps=told[1])
    bench = bench_over(trials, rhythm)
    trial = bench.compare(BASELINE, COMPILED, 5.0)
    if stopped:
        assert trial.failure == f"its set-up takes longer than 60% of the {steps:,} steps of a run without it"
        assert trial.seconds < 13.0
    else:
        assert trial.failure is None


def test_a_planned_length_that_a_process_went_past_stops_no_set_up() -> None:
    """A head was trained for 60 steps, as the loops around them said, and then the whole network."""
    trials = compiling(12.0)
    bench = bench_over(trials, Rhythm(0, 0, 1, 0.01, planned_steps=60))
    bench.compare(BASELINE, FAST, 5.0)
    assert bench.compare(BASELINE, COMPILED, 5.0).failure is None


@pytest.mark.parametrize("before", ["settling", "timing"])
def test_a_larger_model_that_is_trained_next_is_not_held_against_it(before: str) -> None:
    """A student is trained after its teacher, or the other way round."""
    blocks: list[int] = []
    trials = PaperTrials(effects={"bf16": 0.8})

    def larger(worker: PaperWorker) -> None:
        if worker.plan == FAST and len(blocks) < 2:
            blocks.append(worker.taken)
            if len(blocks) == (1 if before == "settling" else 2):
                worker.speed = 0.3
                trials.models_at = frozenset({worker.taken + 1})

    trials.on_steps = larger
    trial = bench_over(trials).compare(BASELINE, FAST, 1.0)
    assert trial.failure is None
    assert trial.ratio is not None
    assert trial.ratio.value == pytest.approx(0.8)


def test_a_process_that_begins_with_a_larger_model_is_not_held_against_it() -> None:
    """One comparison ended in the training of a student, the next process begins with its teacher."""
    trials = PaperTrials(speeds=(0.01, 0.3), effects={"bf16": 0.8}, length=75)
    trial = bench_over(trials).compare(BASELINE, FAST, 1.0)
    assert len(trials.workers) > 1
    assert trial.failure is None
    assert trial.ratio is not None
    assert trial.ratio.value == pytest.approx(0.8)


@pytest.mark.parametrize("times", [1.5, 3.0, 9.0])
def test_what_is_some_times_slower_is_measured(times: float) -> None:
    trial = bench_over(PaperTrials(effects={"bf16": times})).compare(BASELINE, FAST, 1e9)
    assert trial.ratio is not None
    assert trial.ratio.value == pytest.approx(times)


def test_what_is_clearly_slower_is_dropped_after_two_comparisons() -> None:
    trial = bench_over(PaperTrials(effects={"bf16": 1.5})).compare(BASELINE, FAST, 1e9)
    assert len(trial.log_ratios) == 2
    assert trial.failure is None
    slightly = bench_over(PaperTrials(effects={"bf16": 1.1})).compare(BASELINE, FAST, 1e9)
    assert len(slightly.log_ratios) == abba_blocks.LEAST_ABBA_BLOCKS


def test_steps_that_are_slow_once_are_not_held_against_it() -> None:
    """It compiles in its first steps."""

    def compile_first(worker: PaperWorker) -> None:
        first = "bf16 x 3" not in trials.log and "bf16" in worker.plan.techniques
        worker.speed = 5.0 if first else 0.01

    trials = PaperTrials(effects={"bf16": 0.8}, on_steps=compile_first)
    trial = bench_over(trials).compare(BASELINE, FAST, 0.0)
    assert trial.ratio is not None
    assert trial.ratio.value == pytest.approx(0.8)
    assert trials.log[3:5] == ["bf16 x 3", "bf16 x 3"]


def test_a_plan_that_is_much_faster_than_what_it_is_compared_with_is_measured() -> None:
    trial = bench_over(PaperTrials(effects={"bf16": 0.01})).compare(BASELINE, FAST, 0.0)
    assert trial.ratio is not None
    assert trial.ratio.value == pytest.approx(0.01)
