"""Starts of processes compared, over paper workers."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from hasten.bench.comparing.starts import StartBench
from hasten.bench.comparing.steps import Rhythm
from hasten.records.plan import BASELINE, Plan
from tests.bench.paper_workers import PaperTrials, PaperWorker
from tests.scripts.shapes import FOLDER
from tests.scripts.trial import trials_for

RHYTHM = Rhythm(evaluations=0, restarts=0, cycle=1, cycle_seconds=0.01)
QUICK = Plan({"lazy_dynamo": {}})


def bench_over(trials: PaperTrials) -> StartBench:
    return StartBench(trials.as_trials(), RHYTHM)


def starting(factor: float) -> PaperTrials:
    """Processes under the plan take so many times a start's usual seconds."""

    def start(worker: PaperWorker) -> None:
        worker.start_seconds *= factor if worker.plan == QUICK else 1.0

    return PaperTrials(on_start=start)


def test_the_ratio_is_of_starts() -> None:
    trials = starting(0.5)
    trial = bench_over(trials).compare(BASELINE, QUICK, 3)
    assert trial.failure is None
    assert (trial.method, trial.parts) == ("starts", ("start",))
    assert trial.log_ratios == pytest.approx([math.log(0.5)] * 3)
    assert trial.step_seconds_a is None
    assert trial.breakeven_steps is None


def test_hastens_own_part_of_a_start_is_not_the_scripts() -> None:
    def start(worker: PaperWorker) -> None:
        worker.own_seconds, worker.start_seconds = 0.5, 1.5 if worker.plan == QUICK else 2.5

    trial = bench_over(PaperTrials(on_start=start)).compare(BASELINE, QUICK, 3)
    assert trial.log_ratios == pytest.approx([math.log(1.0 / 2.0)] * 3)
    assert {(one.start_seconds, one.own_seconds) for one in trial.processes_b} == {(1.5, 0.5)}


def test_each_process_has_the_machine_to_itself() -> None:
    running: list[int] = []

    def start(worker: PaperWorker) -> None:
        running.append(sum(not one.stopped for one in worker.trials.workers))

    bench_over(PaperTrials(on_start=start)).compare(BASELINE, QUICK, 2)
    assert running == [1, 1, 1, 1]


def test_no_step_is_trained_but_the_first() -> None:
    trials = PaperTrials()
    bench_over(trials).compare(BASELINE, QUICK, 2)
    assert len(trials.workers) == 4
    assert all(worker.stopped and not any(" x " in line for line in worker.log) for worker in trials.workers)


def test_where_a_start_is_not_known_nothing_is_found() -> None:
    trial = bench_over(starting(0.0)).compare(BASELINE, QUICK, 3)
    assert trial.failure == "it is not known what the start of a process took"
    assert trial.ratio is None


def test_a_technique_without_effect_fails() -> None:
    trial = bench_over(PaperTrials(effective=False)).compare(BASELINE, QUICK, 3)
    assert trial.failure is not None
    assert "had no effect" in trial.failure


def test_what_both_plans_have_needs_no_effect_before_a_step() -> None:
    """bf16 has none until a model is called in training, and makes no start longer or shorter."""
    steps, both = Plan({"bf16": {}}), Plan({"bf16": {}, "lazy_dynamo": {}})
    trials = PaperTrials(idle=["bf16"])
    trial = bench_over(trials).compare(steps, both, 3)
    assert trial.failure is None
    assert (trial.a, trial.b) == (steps, both)
    assert {worker.plan for worker in trials.workers} == {BASELINE, QUICK}, "nothing is set up for no step"
    assert [proof.technique for proof in trial.proofs] == ["lazy_dynamo"]


@pytest.mark.thorough
def test_real_processes_in_combination_with_what_acts_in_steps(tmp_path: Path) -> None:
    steps, both = Plan({"fused_optimizer": {}}), Plan({"fused_optimizer": {}, "lazy_dynamo": {}})
    folder = tmp_path / "work"
    folder.mkdir()
    with trials_for(FOLDER / "with_argparse.py", folder) as trials:
        trial = StartBench(trials, RHYTHM).compare(steps, both, 2)
    assert trial.failure is None
    assert [proof.technique for proof in trial.proofs] == ["lazy_dynamo"]
    assert trial.ratio is not None
