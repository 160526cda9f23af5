"""Whole stretches of a run, compared over paper workers whose script has epochs."""

from __future__ import annotations

import math
from collections.abc import Iterator

import pytest

from hasten.bench.comparing.steps import STEPS as PER_STEP
from hasten.bench.comparing.steps import Rhythm
from hasten.bench.comparing.stretches import StretchBench
from hasten.errors import WorkerError
from hasten.inside.techniques.catalog import CATALOG
from hasten.records.plan import BASELINE, Plan
from hasten.records.trial import Seen, Trial, Unseen
from tests.bench.paper_epochs import QUICK, START_SECONDS, WRITES_LATER, PaperRun, known
from tests.bench.paper_workers import PaperWorker

RHYTHM = Rhythm(evaluations=0, restarts=0, cycle=1, cycle_seconds=0.01)
SHORT = {"epoch": 40, "between": 0.4}  # epochs of 0.8 s
LONG = {"epoch": 40, "between": 4.0}
STEPS = 0.4  # seconds that an epoch's steps take
UNEVEN = (0.01, 0.012, 0.009, 0.011, 0.0105)


@pytest.fixture(autouse=True)
def techniques() -> Iterator[None]:
    with known():
        yield


def bench_over(run: PaperRun, rhythm: Rhythm = RHYTHM) -> StretchBench:
    return StretchBench(run.as_trials(), rhythm, start_seconds=START_SECONDS)


def compared(run: PaperRun, plan: Plan = QUICK, pairs: int = 4, early: bool = False) -> Trial:
    bench = bench_over(run)
    bench.early = early
    assert isinstance(bench.seek(BASELINE, plan, 1e6), Seen)
    return bench.compare(BASELINE, plan, pairs)


@pytest.mark.parametrize("early", [False, True])
@pytest.mark.parametrize("lengths", [SHORT, LONG])
def test_the_ratio_is_of_steps_and_evaluation_together(lengths: dict[str, float], early: bool) -> None:
    trial = compared(PaperRun(shorter={"quick_eval": 0.25}, **lengths), early=early)  # type: ignore[arg-type]
    between = lengths["between"]
    assert trial.failure is None
    assert trial.log_ratios == pytest.approx([math.log((STEPS + between / 4) / (STEPS + between))] * 4)
    assert (trial.method, trial.parts) == ("stretches", ("evaluation",))
    assert trial.step_log_ratios == pytest.approx([0.0] * 4)
    assert [proof.technique for proof in trial.proofs] == ["quick_eval"]


@pytest.mark.parametrize("early", [False, True])
def test_an_evaluation_in_every_step_counts_as_well(early: bool) -> None:
    """As of a whole graph, that is evaluated after each update: any steps are compared, nothing evened."""
    run = PaperRun(epoch=1, between=0.05, shorter={"quick_eval": 0.25}, speeds=UNEVEN)
    rhythm = Rhythm(evaluations=1, restarts=1, saves=1, cycle=1, cycle_seconds=0.06, unit=PER_STEP)
    bench = bench_over(run, rhythm)
    bench.early = early
    seen = bench.seek(BASELINE, QUICK, 60.0)
    assert isinstance(seen, Seen)
    assert seen.share is None
    assert seen.seconds == pytest.approx(1.0, rel=0.1)
    trial = bench.compare(BASELINE, QUICK, 4)
    assert trial.failure is None
    assert trial.ratio is not None
    assert trial.ratio.value == pytest.approx((0.01 + 0.05 / 4) / 0.06, rel=0.1)


def test_a_stretch_is_about_what_does_not_belong_to_steps() -> None:
    rhythm = Rhythm(1, 1, 1, cycle_seconds=0.02, alike=True)
    bench = bench_over(PaperRun(**SHORT), rhythm)  # type: ignore[arg-type]
    plan = Plan({**QUICK.techniques, **WRITES_LATER.techniques})
    assert isinstance(bench.seek(BASELINE, plan, 1e6), Seen)
    assert bench.compare(BASELINE, plan, 2).parts == ("saving",)


def test_a_plan_that_leaves_out_evaluations_of_every_step_fails() -> None:
    run = PaperRun(epoch=1, between=0.05, skips="quick_eval")
    rhythm = Rhythm(evaluations=1, restarts=1, saves=1, cycle=1, cycle_seconds=0.06, unit=PER_STEP)
    bench = bench_over(run, rhythm)
    bench.seek(BASELINE, QUICK, 60.0)
    assert "evaluation came by 0 times" in (bench.compare(BASELINE, QUICK, 2).failure or "")


def test_what_acts_from_the_second_time_on_is_not_compared_before(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = bench_over(PaperRun(**LONG))  # type: ignore[arg-type]
    bench.seek(BASELINE, QUICK, 1e6)
    usual = [bench.seconds_of_pair(BASELINE, QUICK, early=early) for early in (True, False)]
    monkeypatch.setattr(CATALOG["quick_eval"], "from_second", True)
    assert usual[0] != usual[1]
    assert bench.seconds_of_pair(BASELINE, QUICK, early=True) == usual[1]


def test_steps_that_become_faster_too_are_told_apart() -> None:
    run = PaperRun(shorter={"quick_eval": 0.5}, effects={"bf16": 0.8}, **LONG)  # type: ignore[arg-type]
    trial = compared(run, Plan({"bf16": {}, "quick_eval": {}}))
    assert trial.log_ratios == pytest.approx([math.log((0.8 * STEPS + 2) / (STEPS + 4))] * 4)
    assert trial.step_log_ratios == pytest.approx([math.log(0.8)] * 4)


def test_one_regular_step_of_each_stretch_tells_how_long_steps_take() -> None:
    """Evaluated after every third: without it a run could not be foreseen."""
    run = PaperRun(epoch=3, between=1.0, shorter={"quick_eval": 0.5}, effects={"bf16": 0.8})
    trial = compared(run, Plan({"bf16": {}, "quick_eval": {}}))
    assert trial.step_log_ratios == pytest.approx([math.log(0.8)] * 4)
    assert [one.step_seconds for one in trial.processes_a] == pytest.approx([0.01] * 4)
    assert [one.step_seconds for one in trial.processes_b] == pytest.approx([0.008] * 4)


@pytest.mark.attack("truth")
@pytest.mark.parametrize("lengths", [SHORT, LONG])
def test_what_is_only_moved_into_the_steps_is_no_gain(lengths: dict[str, float]) -> None:
    """Saves that go on in the background: what they no longer take, the steps after them do."""
    between = lengths["between"]
    run = PaperRun(shorter={"late_saves": 0.1}, later={"late_saves": 0.9 * between}, **lengths)  # type: ignore[arg-type]
    trial = compared(run, WRITES_LATER, early=True)
    assert trial.failure is None
    assert trial.log_ratios == pytest.approx([0.0] * 4, abs=1e-9)


@pytest.mark.attack("truth")
def test_a_plan_that_evaluates_less_often_fails() -> None:
    trial = compared(PaperRun(shorter={"quick_eval": 0.1}, skips="quick_eval", **LONG))  # type: ignore[arg-type]
    assert trial.ratio is None
    assert trial.failure == "evaluation came by 0 times in steps in which plain training has it 1 times"


@pytest.mark.attack("truth")
def test_a_search_for_what_acts_between_steps_is_not_spoilt_by_steps() -> None:
    """Processes of different speed: what comes between epochs takes as much longer, but steps cancel."""
    run = PaperRun(speeds=UNEVEN, shorter={"quick_eval": 0.25}, **SHORT)  # type: ignore[arg-type]
    spread = [max(logs) - min(logs) for logs in _searched_and_confirmed(run)]
    assert spread[0] < 0.6 * spread[1]


@pytest.mark.attack("truth")
def test_a_search_for_what_leaves_work_behind_counts_steps_as_they_were() -> None:
    run = PaperRun(speeds=UNEVEN, shorter={"late_saves": 0.25}, **SHORT)  # type: ignore[arg-type]
    searched, confirmed = _searched_and_confirmed(run, WRITES_LATER)
    assert searched == pytest.approx(confirmed)


def _searched_and_confirmed(run: PaperRun, plan: Plan = QUICK) -> list[tuple[float, ...]]:
    found = []
    for early in (True, False):
        run.workers.clear()
        found.append(compared(run, plan, pairs=2, early=early).log_ratios)
    return found


def test_nothing_that_changes_nothing_is_found() -> None:
    trial = compared(PaperRun(**SHORT))  # type: ignore[arg-type]
    assert trial.log_ratios == pytest.approx([0.0] * 4)
    assert not trial.failure


def test_a_technique_without_effect_fails() -> None:
    trial = compared(PaperRun(effective=False, **SHORT))  # type: ignore[arg-type]
    assert trial.failure == "quick_eval had no effect (counted)"


def test_both_train_the_same_steps_in_turns() -> None:
    """Epochs of 0.8 s are joined: two of them make a stretch, and each process has two stretches."""
    run = PaperRun(**SHORT)  # type: ignore[arg-type]
    compared(run, pairs=2)
    _, *workers = run.workers
    for worker in workers:
        assert [entry for entry in worker.log if entry != "paused"] == [
            f"{worker.plan.label} x 40",
            *[f"{worker.plan.label} x 80"] * 2,
        ]
    a, b = "baseline", "quick_eval"
    assert run.blocks(80) == [a, b, b, a, b, a, a, b]


def test_where_stretches_are_long_each_process_has_one() -> None:
    run = PaperRun(**LONG)  # type: ignore[arg-type]
    compared(run, pairs=1, early=True)
    assert [worker.taken for worker in run.workers[1:]] == [50, 50]
    run = PaperRun(**LONG)  # type: ignore[arg-type]
    compared(run, pairs=1)
    assert [worker.taken for worker in run.workers[1:]] == [81, 81]


def test_the_process_that_looks_is_one_and_does_for_all_that_follow() -> None:
    run = PaperRun(**LONG)  # type: ignore[arg-type]
    bench = bench_over(run)
    for plan in (QUICK, WRITES_LATER, QUICK):
        assert isinstance(bench.seek(BASELINE, plan, 1e6), Seen)
    assert [worker.plan for worker in run.workers] == [BASELINE]
    assert run.workers[0].stopped


def test_what_was_found_says_how_much_can_be_gained() -> None:
    seen = bench_over(PaperRun(**LONG)).seek(BASELINE, QUICK, 1e6)  # type: ignore[arg-type]
    assert seen == Seen(pytest.approx(4.4), pytest.approx(4.0 / 4.4))  # type: ignore[arg-type]


def test_what_does_not_show_in_steps_has_no_such_bound() -> None:
    seen = bench_over(PaperRun(**LONG)).seek(BASELINE, Plan({"gc_control": {}}), 1e6)  # type: ignore[arg-type]
    assert seen == Seen(pytest.approx(4.4))  # type: ignore[arg-type]


def test_a_pair_is_foreseen_once_it_is_known() -> None:
    bench = bench_over(PaperRun(**LONG))  # type: ignore[arg-type]
    assert bench.seconds_of_pair(BASELINE, QUICK, early=False) is None
    bench.seek(BASELINE, QUICK, 1e6)
    early, late = (bench.seconds_of_pair(BASELINE, QUICK, early=early) for early in (True, False))
    assert early == pytest.approx(2 * START_SECONDS + 2 * (0.09 + 4.4))
    assert late == pytest.approx(2 * START_SECONDS + 2 * (0.39 + 4.01 + 4.4))


@pytest.mark.attack("truth")
@pytest.mark.parametrize("slower", [1.0, 2.0])
@pytest.mark.parametrize("early", [False, True])
def test_what_pairs_took_corrects_what_the_next_is_foreseen_to_take(slower: float, early: bool) -> None:
    """Evaluation is quicker under the plan, and the machine slower than while it was watched."""
    run = PaperRun(shorter={"quick_eval": 0.25}, speeds=(0.01, 0.01 * slower), **LONG)  # type: ignore[arg-type]
    bench = bench_over(run)
    bench.early = early
    bench.seek(BASELINE, QUICK, 1e6)
    began = run.now
    bench.compare(BASELINE, QUICK, 2)
    assert bench.seconds_of_pair(BASELINE, QUICK, early=early) == pytest.approx((run.now - began) / 2)


@pytest.mark.attack("truth")
def test_a_pair_of_quick_plans_is_not_taken_for_one_with_the_baseline() -> None:
    run = PaperRun(shorter={"quick_eval": 0.25}, effects={"bf16": 0.5}, epoch=400, between=4.0)
    bench, both = bench_over(run), Plan({"bf16": {}, **QUICK.techniques})
    bench.early = False
    bench.seek(BASELINE, QUICK, 1e6)
    bench.compare(Plan({"bf16": {}}), both, 2)
    foreseen, began = bench.seconds_of_pair(BASELINE, both, early=False), run.now
    bench.compare(BASELINE, both, 1)
    assert foreseen == pytest.approx(run.now - began, rel=1e-3)


def test_what_did_not_come_by_in_time_is_told() -> None:
    bench = bench_over(PaperRun(epoch=10_000))
    assert bench.seek(BASELINE, QUICK, 20.0) == Unseen("evaluation", 20.0)
    assert bench.compare(BASELINE, QUICK, 2).ratio is None


def test_a_second_look_that_is_not_longer_is_not_taken() -> None:
    run = PaperRun(epoch=10_000)
    bench = bench_over(run)
    for seconds in (20.0, 20.0, 10.0):
        bench.seek(BASELINE, QUICK, seconds)
    assert len(run.workers) == 1
    bench.seek(BASELINE, QUICK, 40.0)
    assert len(run.workers) == 2


def test_no_look_is_taken_if_an_epoch_is_known_to_take_far_longer() -> None:
    run = PaperRun(epoch=10_000)
    rhythm = Rhythm(evaluations=0, restarts=0, cycle=1, cycle_seconds=0.01, epoch_steps=10_000)
    unseen = bench_over(run, rhythm).seek(BASELINE, QUICK, 20.0)
    assert run.workers == []
    assert unseen == Unseen("evaluation", 0.0, needed=START_SECONDS + 2 * 100.0)


def test_nor_where_a_process_is_known_to_start_later() -> None:
    run = PaperRun(**LONG)  # type: ignore[arg-type]
    assert bench_over(run).seek(BASELINE, QUICK, START_SECONDS) == Unseen("evaluation", 0.0)
    assert run.workers == []


def test_a_script_that_ends_before_says_so() -> None:
    bench = bench_over(PaperRun(epoch=40, length=75))
    assert bench.seek(BASELINE, QUICK, 1e6) == Unseen("evaluation", 1e6, times=1, ended=True)


def test_one_that_was_seen_says_when_the_next_would_have_been() -> None:
    unseen = bench_over(PaperRun(epoch=1000, between=0.0)).seek(BASELINE, QUICK, 20.0)
    assert unseen == Unseen("evaluation", 20.0, times=1, needed=pytest.approx(START_SECONDS + 20.02))  # type: ignore[arg-type]


def test_a_plan_that_trains_otherwise_is_watched_by_itself() -> None:
    """Batches of twice the size make half as many steps of an epoch."""

    def shorten(worker: PaperWorker) -> None:
        run.epoch = 20 if "batch_size" in worker.plan.techniques else 40

    run = PaperRun(on_steps=shorten, on_start=shorten, between=4.0)
    bench, plan = bench_over(run), Plan({"batch_size": {"times": 2}, **QUICK.techniques})
    bench.early = False
    assert isinstance(bench.seek(BASELINE, plan, 1e6), Seen)
    assert [list(worker.plan.techniques) for worker in run.workers] in (
        [[], ["batch_size"]],
        [["batch_size"], []],
    )
    assert bench.compare(BASELINE, plan, 1).failure is None
    assert [worker.taken for worker in run.workers[2:]] == [81, 41]


def test_a_script_of_few_epochs_has_shorter_stretches() -> None:
    trial = compared(PaperRun(length=130, shorter={"quick_eval": 0.5}, **SHORT))  # type: ignore[arg-type]
    assert trial.log_ratios == pytest.approx([math.log(0.6 / 0.8)] * 4)


@pytest.mark.parametrize("error", [WorkerError("killed by SIGKILL"), WorkerError("silent")])
def test_what_looks_and_fails_says_why(error: Exception) -> None:
    def fail(worker: PaperWorker) -> None:
        raise error

    unseen = bench_over(PaperRun(on_start=fail)).seek(BASELINE, QUICK, 20.0)
    assert isinstance(unseen, Unseen)
    assert unseen.failure == str(error)


def test_without_a_look_a_comparison_fails_by_name() -> None:
    trial = bench_over(PaperRun()).compare(BASELINE, QUICK, 2)
    assert trial.failure == "it is not known where in a run evaluation occurs"
    assert trial.parts == ("evaluation",)


def test_a_process_alone_is_timed_as_those_of_pairs() -> None:
    run = PaperRun(shorter={"quick_eval": 0.25}, **LONG)  # type: ignore[arg-type]
    bench = bench_over(run)
    bench.seek(BASELINE, QUICK, 1e6)
    bench.compare(BASELINE, QUICK, 2)
    assert bench.singles([QUICK, QUICK]) == pytest.approx(list(bench.sample_seconds_b))


@pytest.mark.attack("truth")
@pytest.mark.parametrize("early", [False, True])
@pytest.mark.parametrize("between", [0.3, 3.0])
def test_a_short_and_a_long_way_between_evaluations_count_by_their_steps(between: float, early: bool) -> None:
    """Of 110 steps an epoch, one is evaluated after 100, and one at the end."""
    run = PaperRun(epoch=110, also_after=100, between=between, shorter={"quick_eval": 0.5})
    true = (1.1 + between) / (1.1 + 2 * between)
    assert compared(run, early=early).log_ratios == pytest.approx([math.log(true)] * 4)


def test_a_script_of_three_epochs_is_looked_at_and_told() -> None:
    bench = bench_over(PaperRun(epoch=8, between=3.0, length=20))
    seen = bench.seek(BASELINE, QUICK, 1e6)
    assert seen == Seen(pytest.approx(3.08), pytest.approx(3.0 / 3.08))  # type: ignore[arg-type]
