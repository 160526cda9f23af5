"""What comes between epochs, gathered from steps that no comparison counts."""

from __future__ import annotations

import pytest

from hasten.bench.comparing.epoch_ends import EpochEnd, EpochEnds
from hasten.bench.comparing.live import LiveBench
from hasten.bench.comparing.pairs import PairsBench
from hasten.bench.comparing.steps import Rhythm
from hasten.records.observation import Step
from hasten.records.plan import BASELINE, Plan
from tests.bench.made_up import step
from tests.bench.paper_workers import PaperTrials

RHYTHM = Rhythm(evaluations=0, restarts=0, cycle=1, cycle_seconds=0.01)
FAST = Plan({"bf16": {}})
STEADY = Plan({"malloc": {}})


def epochs(count: int, steps: int, end: float = 0.5) -> list[Step]:
    """The first step begins the first epoch; an evaluation falls into that of each later one."""
    usual = [step() for _ in range(steps - 1)]
    first, later = step(1.0, restarts=1), step(0.01 + end, restarts=2, evaluations=3)
    return [first, *usual, *[one for _ in range(count - 1) for one in (later, *usual)]]


def test_an_end_is_what_its_step_took_longer() -> None:
    ends = EpochEnds(RHYTHM)
    ends.note(FAST, epochs(3, 10), 0)
    assert [end.plan for end in ends.seen] == [FAST, FAST]
    assert [end.seconds for end in ends.seen] == pytest.approx([0.5, 0.5])
    assert [end.first for end in ends.seen] == [True, False]
    assert ends.every == 10


def test_the_first_epoch_has_no_end_before_it() -> None:
    ends = EpochEnds(RHYTHM)
    ends.note(BASELINE, epochs(1, 20), 0)
    assert ends.seen == []
    assert ends.every is None


def test_steps_are_noted_piece_by_piece_under_the_plan_in_force() -> None:
    ends, steps = EpochEnds(RHYTHM), epochs(3, 10)
    for before in range(0, 30, 5):
        ends.note(FAST if before >= 15 else BASELINE, steps[before : before + 5], before)
    assert [end.plan for end in ends.seen] == [BASELINE, FAST]
    assert ends.every == 10


def test_ends_of_all_processes_count() -> None:
    ends = EpochEnds(RHYTHM)
    ends.note(BASELINE, epochs(2, 10), 0)
    ends.note(FAST, epochs(3, 10), 0)
    ends.note(FAST, epochs(1, 9), 0)
    assert len(ends.seen) == 3
    assert ends.every == 10


def test_those_that_were_observed_are_added() -> None:
    ends, observed = EpochEnds(RHYTHM), EpochEnds(RHYTHM)
    ends.note(FAST, epochs(2, 10), 0)
    observed.note(BASELINE, epochs(2, 14)[4:], 4)
    both = ends.with_these(observed)
    assert [end.plan for end in both.seen] == [BASELINE, FAST]
    assert both.every == 12
    assert len(ends.seen) == 1


def test_where_evaluation_belongs_to_each_step_it_is_no_end() -> None:
    ends = EpochEnds(Rhythm(evaluations=3, restarts=2, cycle=1, cycle_seconds=0.01))
    ends.note(BASELINE, epochs(3, 10), 0)
    assert ends.seen == []


def test_no_end_takes_less_than_nothing() -> None:
    ends = EpochEnds(RHYTHM)
    ends.note(BASELINE, [step(), step(), step(0.001, restarts=1)], 0)
    assert ends.seen == [EpochEnd(BASELINE, 0.0, first=True)]


def test_the_first_end_under_all_of_a_plan_is_told_apart() -> None:
    both = STEADY.adding("bf16", {})
    ends, steps = EpochEnds(RHYTHM), epochs(6, 10)
    for number, plan in enumerate((STEADY, BASELINE, both, STEADY, FAST, both)):
        ends.note(plan, steps[10 * number : 10 * number + 10], 10 * number)
    found = [(end.plan.label, end.first) for end in ends.seen]
    assert found == [
        *(("baseline", True), (both.label, True), ("malloc", False), ("bf16", False), (both.label, False))
    ]
    ends.note(BASELINE, epochs(2, 10), 0)
    assert ends.seen[-1].first


def test_the_length_of_the_script_is_what_was_known_until_a_worker_tells() -> None:
    assert EpochEnds(RHYTHM).script_steps is None
    ends = EpochEnds(Rhythm(0, 0, 1, 0.01, steps_in_all=40))
    assert ends.script_steps == 40
    ends.script_ended(50)
    assert ends.script_steps == 50


# ---- told by the benches
def test_live_comparisons_tell_of_them_under_each_plan() -> None:
    ends = EpochEnds(RHYTHM)
    trials = PaperTrials(evaluating=True)
    LiveBench(trials.as_trials(), RHYTHM, ends=ends).compare(BASELINE, FAST, 0.0)
    (worker,) = trials.workers
    assert {end.plan for end in ends.seen} == {BASELINE, FAST}
    assert len(ends.seen) == sum(one.evaluations > 0 for one in worker.history[1:])
    assert ends.every == pytest.approx(2.0, abs=0.1)


def test_pairs_tell_of_them_and_of_each_process() -> None:
    ends = EpochEnds(RHYTHM)
    trials = PaperTrials(effects={"malloc": 0.5})
    bench = PairsBench(trials.as_trials(), RHYTHM, ends=ends)
    found = bench.compare(BASELINE, STEADY, 3)
    assert [one.step_seconds for one in found.processes_a] == pytest.approx([0.01] * 3)
    assert [one.step_seconds for one in found.processes_b] == pytest.approx([0.005] * 3)
    assert {one.start_seconds for one in (*found.processes_a, *found.processes_b)} == {3.0}
    assert ends.seen == []


@pytest.mark.parametrize("changed", [False, True])
def test_the_length_is_that_of_a_training_which_is_the_scripts_own(changed: bool) -> None:
    ends = EpochEnds(RHYTHM)
    trials = PaperTrials(length=200)
    plan = Plan({"batch_size": {"factor": 2}}) if changed else STEADY
    PairsBench(PaperTrials(length=70).as_trials(), RHYTHM, ends=ends).compare(BASELINE, plan, 1)
    assert ends.script_steps == (None if changed else 70)
    live = LiveBench(trials.as_trials(), RHYTHM, ends=ends)
    live.compare(BASELINE, FAST, 0.0)
    assert ends.script_steps == 200
