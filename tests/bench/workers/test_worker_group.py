"""Several workers in the place of one: a plan with processes is measured as any other."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from hasten.bench.comparing.pairs import PairsBench
from hasten.bench.comparing.steps import Rhythm
from hasten.bench.guard.guard import guard
from hasten.bench.trials import Trials
from hasten.bench.workers.ending import PlanRefused
from hasten.bench.workers.worker import Worker
from hasten.bench.workers.worker_group import WorkerGroup
from hasten.errors import WorkerError
from hasten.launch.ranks_of_plan import Wish
from hasten.records.plan import BASELINE, Plan
from hasten.report.guard import reasons
from tests.inside.distributed.forked import workers_forked

from ..real_workers import PLAIN, trials_for

TWO = Plan({"processes": {"count": 2}})
WITH_MORE = TWO.adding("fused_optimizer", {"form": "fused"})


def rehearsed(trials: Trials, plan: Plan) -> Worker:
    trials.rehearse(plan)
    return trials.worker(plan)


@pytest.fixture(autouse=True, scope="module")
def _workers_are_forks() -> Iterator[None]:
    """What is tested comes after their start."""
    with workers_forked():
        yield


@pytest.mark.thorough
def test_a_group_trains_the_steps_it_is_told_and_switches_as_one(tmp_path: Path) -> None:
    with trials_for(tmp_path, PLAIN) as trials, rehearsed(trials, TWO) as worker:
        worker.wait_started()
        assert [step.samples for step in worker.steps(3)] == [8, 8, 8]
        assert worker.switch(WITH_MORE) == ""
        worker.steps(5)
        proofs = {proof.technique: proof for proof in worker.proofs()}
        assert all(proof.effective for proof in proofs.values()), proofs
        assert "batches cut for 2 ranks" in proofs["processes"].evidence
        worker.pause()
        worker.resume()
        assert len(worker.steps(2)) == 2


@pytest.mark.thorough
def test_pairs_compare_one_process_with_two(tmp_path: Path) -> None:
    rhythm = Rhythm(evaluations=0, restarts=0, cycle=1, cycle_seconds=0.01)
    with trials_for(tmp_path, PLAIN) as trials:
        trial = PairsBench(trials, rhythm).compare(BASELINE, TWO, pairs=1)
    assert trial.failure is None
    assert len(trial.log_ratios) == 1
    assert trial.proofs[0].effective


@pytest.mark.attack("messages")
def test_a_rank_that_is_gone_fails_the_group(tmp_path: Path) -> None:
    with trials_for(tmp_path, PLAIN) as trials, rehearsed(trials, TWO) as worker:
        assert isinstance(worker, WorkerGroup)
        worker.wait_started()
        os.killpg(worker.ranks[1]._process.pid, signal.SIGKILL)
        blamed = r"^rank 1 was killed by SIGKILL \(out of memory\?\) while training 3 steps under processes"
        with pytest.raises(WorkerError, match=blamed):
            worker.steps(3)


@pytest.mark.thorough
def test_a_script_that_ranks_cannot_train_fails_the_trial(tmp_path: Path) -> None:
    source = (
        PLAIN.replace("train_step(model, optimizer, pictures, labels)", "").rstrip()
        + """
        optimizer.zero_grad()
        out = torch.nn.functional.normalize(model(pictures))
        (out @ out.T).exp().sum().log().backward()
        optimizer.step()
    """
    )
    with (
        trials_for(tmp_path, source) as trials,
        pytest.raises(PlanRefused, match=r"processes: .* depends on the others of its batch"),
    ):
        trials.rehearse(TWO)


def test_the_guard_passes_two_ranks_and_sees_wrong_ones(tmp_path: Path) -> None:
    source = PLAIN.replace("torch.manual_seed(0)", "torch.manual_seed(0); torch.set_num_threads(1)")
    with trials_for(tmp_path, source) as trials:
        verdict = guard(trials, TWO, False, "float32", seed=1, steps=24)
        assert reasons(verdict) == []
        assert verdict.passed
        wish = Wish(2)
        trials._rehearsed[wish] = replace(trials._rehearsed[wish], loss="sum")
        wrong = guard(trials, TWO, False, "float32", seed=1, steps=24)
        assert not wrong.passed
        assert any("gradient" in reason for reason in reasons(wrong)), reasons(wrong)


def test_a_plan_with_processes_that_was_not_rehearsed_is_an_error_of_ours(tmp_path: Path) -> None:
    with trials_for(tmp_path, PLAIN) as trials, pytest.raises(AssertionError, match="was not rehearsed"):
        trials.worker(TWO)
