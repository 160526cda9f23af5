"""What comes between epochs, gathered from steps that no comparison counts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hasten.bench.comparing.epoch_ends import TURN, EpochEnd, EpochEnds, Kind
from hasten.bench.comparing.live import LiveBench
from hasten.bench.comparing.pairs import PairsBench
from hasten.bench.comparing.steps import Rhythm
from hasten.records.caution import Caution
from hasten.records.observation import Step
from hasten.records.plan import BASELINE, Plan
from hasten.records.run_forecast import RunLength
from hasten.records.whole_run import WatchedRun
from hasten.tuning.run_length import length_of
from tests.bench.made_up import observation, step
from tests.bench.paper_workers import PaperTrials, PaperWorker

RHYTHM = Rhythm(evaluations=0, restarts=0, cycle=1, cycle_seconds=0.01)
FAST = Plan({"bf16": {}})
STEADY = Plan({"malloc": {}})
EVALUATED = Kind(evaluated=True, restarts=2)


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
    assert ends.kinds == (EVALUATED,)
    assert ends.every(EVALUATED) == 10


def test_set_up_of_techniques_is_no_part_of_an_end() -> None:
    """A first evaluation may compile; what that took is told with the set-up."""
    ends = EpochEnds(RHYTHM)
    ends.note(FAST, [step(), step(), replace(step(2.5, evaluations=1), setup_seconds=2.0)], 0)
    assert ends.seen[0].seconds == pytest.approx(0.49)


def test_the_first_epoch_has_no_end_before_it() -> None:
    ends = EpochEnds(RHYTHM)
    ends.note(BASELINE, epochs(1, 20), 0)
    assert ends.seen == []
    assert ends.kinds == ()
    assert ends.turns_every is None


def test_steps_are_noted_piece_by_piece_under_the_plan_in_force() -> None:
    ends, steps = EpochEnds(RHYTHM), epochs(3, 10)
    for before in range(0, 30, 5):
        ends.note(FAST if before >= 15 else BASELINE, steps[before : before + 5], before)
    assert [end.plan for end in ends.seen] == [BASELINE, FAST]
    assert ends.every(EVALUATED) == 10


def test_ends_of_all_processes_count() -> None:
    ends = EpochEnds(RHYTHM)
    ends.note(BASELINE, epochs(2, 10), 0)
    ends.note(FAST, epochs(3, 10), 0)
    ends.note(FAST, epochs(1, 9), 0)
    assert len(ends.seen) == 3
    assert [end.process for end in ends.seen] == [1, 2, 2]
    assert ends.every(EVALUATED) == 10


# ---- how often they come
def mixed(steps: int, epoch: int = 40, evaluate: int = 15) -> list[Step]:
    """Evaluations by a loader in mid-epoch, and turns of epochs."""
    found = [step(restarts=1)]
    for position in range(1, steps):
        turn, evaluated = not position % epoch, not position % evaluate
        found.append(step(restarts=turn + evaluated, evaluations=3 * evaluated))
    return found


def test_an_evaluation_in_mid_epoch_is_another_kind_than_the_end_of_one() -> None:
    ends = EpochEnds(RHYTHM)
    ends.note(BASELINE, mixed(130), 0)
    assert ends.kinds == (Kind(True, 1), TURN, EVALUATED)  # 120: both at once
    assert ends.every(TURN) == 40
    assert ends.turns_every == pytest.approx((105 - 15) / 6)


@pytest.mark.attack("truth")
def test_an_epoch_that_goes_on_is_longer_than_one_that_was_left_early() -> None:
    """A learning rate was sought in 10 steps; then the training begins, whose first epoch has no end yet."""
    sought = WatchedRun(2.0, False, (), epochs=1, epoch_steps=10, epoch_seen=True)
    for steps, known in ((9, RunLength(None, 10, "", by_epochs=True)), (300, RunLength())):
        ends = EpochEnds(RHYTHM)
        ends.note(BASELINE, [*epochs(1, 10), *epochs(1, steps)], 0)
        assert length_of(observation(run=sought), None, ends.turns_every) == known


@pytest.mark.parametrize("steps", [130, 119, 81])
def test_they_come_as_often_as_was_seen_and_go_on_so(steps: int) -> None:
    ends = EpochEnds(RHYTHM)
    ends.note(BASELINE, mixed(steps), 0)
    assert ends.times(TURN, 120) == 2
    assert ends.times(Kind(True, 1), 120) == 7


def test_none_comes_after_the_last_step() -> None:
    ends = EpochEnds(RHYTHM)
    ends.note(BASELINE, epochs(2, 10), 0)
    assert [ends.times(EVALUATED, steps) for steps in (10, 11, 20, 21, 40)] == [0, 1, 1, 2, 3]


def test_a_plan_that_trains_otherwise_does_not_say_how_often() -> None:
    ends, larger = EpochEnds(RHYTHM), Plan({"batch_size": {"factor": 2}})
    ends.note(larger, epochs(9, 5), 0)
    assert ends.every(EVALUATED) == 5
    ends.note(BASELINE, epochs(2, 10), 0)
    assert ends.every(EVALUATED) == 10
    assert {end.plan for end in ends.seen} == {larger, BASELINE}


def test_runs_of_other_lengths_are_told_apart_from_one_that_is_cut_a_little() -> None:
    ends = EpochEnds(RHYTHM)
    ends.script_ended(200)
    ends.script_ended(201)
    assert not ends.varies
    ends.script_ended(260)
    assert ends.varies
    known = EpochEnds(Rhythm(0, 0, 1, 0.01, steps_in_all=40))
    known.script_ended(90)
    assert known.varies


@pytest.mark.parametrize(("length", "varies"), [(12, True), (30, False)])
def test_a_process_that_went_further_than_another_was_long_tells_that_it_varies(
    length: int, varies: bool
) -> None:
    """In lower precision a training may stop early."""
    ends = EpochEnds(RHYTHM)
    ends.note(BASELINE, epochs(3, 10), 0)
    ends.script_ended(length)
    assert ends.varies is varies


def test_ends_that_were_reckoned_say_nothing_of_the_length() -> None:
    """As those of shortened epochs: the script may end by steps, before so many epochs are over."""
    ends = EpochEnds(RHYTHM)
    ends.script_ended(40)
    ends.note_ends(BASELINE, 0.1, 4, 400)
    assert not ends.varies


# ---- after the last step
def test_what_comes_after_the_last_step_is_told_with_its_plan() -> None:
    ends = EpochEnds(RHYTHM)
    ends.note(FAST, epochs(2, 10), 0)
    ends.note_tail(FAST, step(3.0, evaluations=3, restarts=1))
    ends.note_tail(FAST, None)
    assert ends.tails == [EpochEnd(FAST, 3.0, kind=Kind(True, 1), process=1)]


def test_an_evaluation_there_may_be_the_first_of_its_process() -> None:
    ends = EpochEnds(RHYTHM)
    ends.note(FAST, epochs(1, 10), 0)
    ends.note_tail(FAST, step(3.0, evaluations=3, restarts=1))
    ends.note_tail(STEADY, step(3.0, evaluations=3, restarts=1), noted=False)
    assert [(tail.first, tail.process) for tail in ends.tails] == [(True, 1), (False, 2)]


# ---- those of several


def test_those_that_were_observed_are_added() -> None:
    ends, observed = EpochEnds(RHYTHM), EpochEnds(RHYTHM)
    ends.note(FAST, epochs(2, 10), 0)
    observed.note(BASELINE, epochs(2, 14)[4:], 4)
    observed.note_tail(BASELINE, step(1.0))
    both = ends.with_these(observed)
    assert [(end.plan, end.process) for end in both.seen] == [(BASELINE, -1), (FAST, 1)]
    assert len(both.tails) == 1
    assert both.every(EVALUATED) == 10, "of the process that was followed from its first step on"
    assert EpochEnds(RHYTHM).with_these(observed).every(EVALUATED) == 14
    assert len(ends.seen) == 1


def test_where_evaluation_belongs_to_each_step_it_is_no_end() -> None:
    ends = EpochEnds(Rhythm(evaluations=3, restarts=2, cycle=1, cycle_seconds=0.01))
    ends.note(BASELINE, epochs(3, 10), 0)
    assert ends.seen == []


def test_no_end_takes_less_than_nothing() -> None:
    ends = EpochEnds(RHYTHM)
    ends.note(BASELINE, [step(), step(), step(0.001, restarts=1)], 0)
    assert ends.seen == [EpochEnd(BASELINE, 0.0, first=True, process=1)]


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
    assert ends.every(Kind(evaluated=True)) == pytest.approx(2.0, abs=0.1)


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
    trials = PaperTrials(length=140)
    plan = Plan({"batch_size": {"factor": 2}}) if changed else STEADY
    PairsBench(PaperTrials(length=70).as_trials(), RHYTHM, ends=ends).compare(BASELINE, plan, 1)
    assert ends.script_steps == (None if changed else 70)
    live = LiveBench(trials.as_trials(), RHYTHM, ends=ends)
    live.compare(BASELINE, FAST, 0.0)
    assert ends.script_steps == 140


def test_a_live_comparison_follows_the_script_to_its_end() -> None:
    ends = EpochEnds(RHYTHM)
    trials = PaperTrials(length=230, evaluating=True, rest=step(2.0))
    LiveBench(trials.as_trials(), RHYTHM, ends=ends).compare(BASELINE, FAST, 0.0)
    assert ends.times(Kind(evaluated=True), 230) == 115
    assert ends.reach == 230
    assert {tail.seconds for tail in ends.tails} == {2.0}
    assert {tail.plan for tail in ends.tails} <= {BASELINE, FAST}


def test_pairs_tell_what_came_after_the_last_step() -> None:
    ends = EpochEnds(RHYTHM)
    trials = PaperTrials(length=70, rest=step(2.0))
    PairsBench(trials.as_trials(), RHYTHM, ends=ends).compare(BASELINE, STEADY, 1)
    assert [(tail.seconds, tail.first) for tail in ends.tails] == [(2.0, False)]


def test_pairs_tell_what_the_steps_before_the_timed_ones_took_longer() -> None:
    def cold(worker: PaperWorker) -> None:
        worker.speed = 0.01 if worker.taken > 10 else 0.03

    trials = PaperTrials(on_steps=cold)
    bench = PairsBench(trials.as_trials(), RHYTHM)
    found = bench.compare(BASELINE, STEADY, 2)
    leads = [one.lead_seconds for one in (*found.processes_a, *found.processes_b)]
    assert leads == pytest.approx([0.02 * (bench._warmup_steps)] * 4)


def test_another_model_than_the_first_steps_have_is_a_caution() -> None:
    ends, steps = EpochEnds(RHYTHM), epochs(3, 40)
    steps[1] = replace(steps[1], new_model=True)  # as of a GAN's second
    ends.note(BASELINE, steps[:60], 0)
    assert ends.cautions() == []
    steps[70] = replace(steps[70], new_model=True)
    ends.note(BASELINE, steps[60:], 60)
    assert ends.cautions() == [Caution("another model", count=71)]


@pytest.mark.attack("truth")
def test_a_planned_length_is_believed_until_something_else_is_seen() -> None:
    """A head is trained by itself, and then the whole: the loops say the steps of the first alone."""
    planned = replace(RHYTHM, planned_steps=30)
    assert EpochEnds(RHYTHM).planned_steps is None
    ends = EpochEnds(planned)
    ends.note(BASELINE, epochs(3, 10), 0)
    assert ends.planned_steps == 30
    ends.note(BASELINE, epochs(1, 10), 30)
    assert ends.planned_steps is None
    early = EpochEnds(planned)
    early.script_ended(10)
    early.script_ended(20)
    assert early.planned_steps is None, "it stops early, each time elsewhere"


def test_the_end_of_a_changed_training_is_not_known_by_the_scripts_length() -> None:
    """Twice as large batches make half as many steps."""
    larger = Plan({"batch_size": {"factor": 2}})
    ends = EpochEnds(RHYTHM, script_steps=50)
    for plan in (FAST, larger):
        ends.note(plan, epochs(3, 10), 0)
        ends.note_tail(plan, step())
    assert ends.end_known(BASELINE, FAST, within=51)
    assert not ends.end_known(larger, larger.adding("bf16", {}), within=51)
