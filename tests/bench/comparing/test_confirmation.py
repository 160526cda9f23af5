"""Confirmations over paper workers: when processes of the plan are started alone, and what they say."""

from __future__ import annotations

import math

import pytest

from hasten.bench.comparing.confirmation import confirm
from hasten.bench.comparing.decisions import SLOW, Effort, is_gain
from hasten.bench.comparing.pairs import PairsBench
from hasten.bench.comparing.steps import Rhythm
from hasten.bench.workers.ending import BudgetOver
from hasten.errors import WorkerError
from hasten.records.plan import BASELINE, Plan
from hasten.records.trial import Trial
from tests.bench.paper_workers import PaperTrials, PaperWorker

RHYTHM = Rhythm(evaluations=0, restarts=0, cycle=1, cycle_seconds=0.01)
PLAN = Plan({"malloc": {}})
SLOW_SPEED = 0.01 * math.exp(SLOW)


def confirmed(trials: PaperTrials, effort: Effort) -> Trial:
    return confirm(PairsBench(trials.as_trials(), RHYTHM), BASELINE, PLAN, effort)


def alone(trials: PaperTrials, pairs: int) -> list[PaperWorker]:
    return trials.workers[2 * pairs :]


@pytest.mark.attack("truth")
@pytest.mark.parametrize(
    ("effect", "effort", "started"),
    [
        (0.5, Effort(4, 20), 0),  # large enough as it is
        (0.9, Effort(10, 20), 0),
        (0.9, Effort(4, 20), 0),
        (0.93, Effort(4, 20), 0),  # enough for one in ten
        (0.95, Effort(4, 20), 6),
        (0.97, Effort(10, 20), 12),
        (0.98, Effort(10, 20), 0),  # 34 would be needed
        (0.95, Effort(4, 4), 0),  # 6 would be needed
        (0.95, Effort(4, 0), 0),
        (0.995, Effort(10, 20), 0),  # however many
        (1.3, Effort(10, 20), 0),
    ],
)
def test_processes_alone_are_started_where_they_decide(effect: float, effort: Effort, started: int) -> None:
    trials = PaperTrials(effects={"malloc": effect})
    trial = confirmed(trials, effort)
    assert trial.failure is None
    assert len(trial.log_ratios) == effort.pairs
    assert trial.looks == pytest.approx([0.0] * started)
    assert trial.looks_most == effort.looks
    assert [worker.plan for worker in alone(trials, effort.pairs)] == [PLAN] * started
    assert all(worker.stopped for worker in trials.workers)
    if started:
        assert not is_gain(trial.log_ratios)
        assert is_gain(trial.log_ratios, trial.looks)


def test_how_many_claims_are_at_stake_is_told_with_it() -> None:
    trials = PaperTrials(effects={"malloc": 0.95})
    assert [confirmed(trials, Effort(4, claims=claims)).claims for claims in (1, 2)] == [1, 2]


def test_a_process_alone_is_warmed_up_and_trains_one_block() -> None:
    trials = PaperTrials(effects={"malloc": 0.95})
    confirmed(trials, Effort(4, 6))
    assert len(alone(trials, 4)) == 6
    for worker in alone(trials, 4):
        # and is asked, at its end, whether the plan took effect in it
        assert worker.log == ["paused", "malloc x 30", "paused", "malloc x 11", "paused", "paused"]


def test_of_two_each_starts_while_no_other_runs() -> None:
    trials = PaperTrials(effects={"malloc": 0.95})
    running: list[int] = []
    there: list[int] = []

    def start(_: PaperWorker) -> None:
        left = [worker for worker in trials.workers if not worker.stopped]
        there.append(len(left))
        running.append(sum(worker.running for worker in left))

    trials.on_start = start
    confirmed(trials, Effort(4, 6))
    assert running == [1] * 14
    assert there == [1, 2] * 7


@pytest.mark.attack("truth")
def test_a_slow_one_asks_for_more_and_is_kept() -> None:
    speeds = (*[0.01] * 9, SLOW_SPEED, 0.01)
    trial = confirmed(PaperTrials(speeds, effects={"malloc": 0.95}), Effort(4, 20))
    assert trial.looks == pytest.approx([0.0, SLOW, *[0.0] * 16])
    assert is_gain(trial.log_ratios, trial.looks)


@pytest.mark.attack("truth")
def test_where_too_many_are_slow_it_is_given_up() -> None:
    trial = confirmed(PaperTrials((*[0.01] * 9, SLOW_SPEED), effects={"malloc": 0.95}), Effort(4, 8))
    assert trial.failure is None
    assert len(trial.looks) == 2, "one of them slow, and fifteen more would be needed"
    assert not is_gain(trial.log_ratios, trial.looks)


@pytest.mark.attack("truth")
def test_where_a_pair_was_slow_none_is_started_alone() -> None:
    trials = PaperTrials((0.01, SLOW_SPEED, 0.01), effects={"malloc": 0.3})
    trial = confirmed(trials, Effort(6, 20))
    assert trial.looks == ()


@pytest.mark.parametrize("effort", [Effort(4), Effort(4, 20)])
def test_a_failed_comparison_starts_none(effort: Effort) -> None:
    trials = PaperTrials(effects={"malloc": 0.93}, effective=False)
    assert confirmed(trials, effort).failure
    assert alone(trials, 4) == []


@pytest.mark.attack("truth")
def test_a_plan_that_fails_alone_is_not_claimed() -> None:
    trials = PaperTrials(effects={"malloc": 0.95})

    def die(_: PaperWorker) -> None:
        if len(trials.workers) > 8:
            raise WorkerError("the script's process was killed")

    trials.on_start = die
    trial = confirmed(trials, Effort(4, 20))
    assert (trial.failure, trial.ratio) == ("the script's process was killed", None)


@pytest.mark.attack("truth")
def test_what_was_seen_when_the_budget_ends_counts() -> None:
    trials = PaperTrials(effects={"malloc": 0.95})

    def end(_: PaperWorker) -> None:
        if len(trials.workers) > 12:
            raise BudgetOver("the budget ended")

    trials.on_start = end
    trial = confirmed(trials, Effort(4, 20))
    assert trial.failure is None
    assert trial.cut_short
    assert len(trial.looks) == 4
    assert not is_gain(trial.log_ratios, trial.looks)
