"""What a tune has found, applied to the whole run."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from hasten.bench.comparing.epoch_ends import EpochEnds
from hasten.bench.comparing.steps import STEPS, Rhythm
from hasten.records.codec import from_json, to_json
from hasten.records.observation import Observation, Step
from hasten.records.plan import BASELINE, Plan
from hasten.records.reasons import Reason
from hasten.records.result import Tried, TuneResult
from hasten.records.run_forecast import ForecastPart, RunForecast, SeenProcess
from hasten.records.sources import SourceDigests
from hasten.records.trial import Ratio, Trial
from hasten.records.whole_run import Part, WatchedRun
from hasten.report.conclusion import conclusion_words
from hasten.report.forecast import forecast_lines
from hasten.tuning.conclusion import Found, conclude
from hasten.tuning.run_evidence import around_steps, forecast_of, slower_of, with_forecast
from tests.bench.made_up import facts, loader, observation, step, trial, verdict, watched_run

PLAN = Plan({"malloc": {}})
LATE = PLAN.adding("denormals", {})
RATIOS = [0.5, 0.51, 0.49, 0.5]
SOURCES = SourceDigests("a", {})


def confirmation(plan: Plan = PLAN, **changes: Any) -> Trial:
    plain = tuple(SeenProcess(2.0, 0.01 + 0.0001 * number) for number in range(4))
    planned = tuple(SeenProcess(2.0, one.step_seconds / 2) for one in plain)
    return trial(RATIOS, plan, processes_a=plain, processes_b=planned, **changes)


def ends_of(*processes: tuple[Plan, Sequence[Step]], steps_in_all: int | None = None) -> EpochEnds:
    """Of processes that took these steps from the script's first one on."""
    found = EpochEnds(Rhythm(0, 0, 1, 0.01, steps_in_all=steps_in_all))
    for plan, steps in processes:
        found.note(plan, steps, 0)
    return found


def course(steps: int, epoch: int, end: float, evaluate: int = 0, evaluation: float = 0.0) -> list[Step]:
    """A new epoch after each ``epoch`` steps, an evaluation by a loader after each ``evaluate``."""
    taken = [step(restarts=1)]
    for position in range(1, steps):
        turn, evaluated = not position % epoch, bool(evaluate) and not position % evaluate
        seconds = 0.01 + turn * end + evaluated * evaluation
        taken.append(step(seconds, restarts=turn + evaluated, evaluations=3 * evaluated))
    return taken


def between(found: RunForecast) -> ForecastPart:
    (one,) = (part for part in found.parts if part.name == "epoch ends")
    return one


def forecast(
    ends: EpochEnds,
    confirmed: Trial | None = None,
    watched: Observation | None = None,
    nproc: int | None = None,
) -> RunForecast | None:
    confirmed = confirmed or confirmation()
    found = Found(facts(), 100.0, verdict=verdict(), trial=confirmed, ends=ends)
    result = replace(conclude(found), tune_seconds=100.0, nproc=nproc)
    if watched is not None:
        result = replace(result, observation=watched)
    return forecast_of(result, confirmed, ends)


def test_what_a_plan_saves_in_later_steps_alone_is_known_from_the_search() -> None:
    ratio = Ratio(0.5, 0.45, 0.55, 5, "ABBA blocks")

    def row(name: str, late: int, **other: Any) -> Tried:
        seconds = other.pop("seconds", 0.02)
        return Tried(
            name, {}, ratio, BASELINE, True, Reason("gain", late=late), "live", against_seconds=seconds
        )

    rows = (row("denormals", 800, seconds=9.9), row("bf16", 0), row("compile", 500), row("denormals", 800))
    found = conclude(Found(facts(), 100.0, verdict=verdict(), trial=confirmation(LATE), tried=rows))
    (one,) = slower_of(found, confirmation(LATE))
    assert one.after == 800
    assert (one.seconds.value, one.seconds.low, one.seconds.high) == pytest.approx((0.01, 0.009, 0.011))
    long = tuple(replace(process, steps=1400) for process in confirmation(LATE).processes_a)
    late = replace(confirmation(LATE), processes_a=long)
    assert slower_of(found, late) == (), "the confirmation has timed such steps itself"


def told(*args: object, **more: object) -> RunForecast:
    found = forecast(*args, **more)  # type: ignore[arg-type]
    assert found is not None
    return found


def with_ends(end: float) -> TuneResult:
    """Of a run of 400 steps, each tenth of which begins an epoch: that takes so long under the plan."""
    ends = ends_of((BASELINE, course(40, 10, 0.01)), (PLAN, course(40, 10, end)), steps_in_all=400)
    found = Found(facts(), 100.0, verdict=verdict(), trial=confirmation(), ends=ends)
    result = replace(conclude(found), tune_seconds=100.0, nproc=3, sources=SOURCES)
    return with_forecast(found, result, lambda: None)


def test_no_plan_is_given_under_which_a_run_is_sure_to_take_longer() -> None:
    """Of federated learning, steps were 1.53 times faster, and a run of 22 s was to take 75 s: a data set for
    each client was examined anew.
    """
    fine, longer = with_ends(0.01), with_ends(1.0)
    assert (fine.outcome, fine.plan) == ("gain", PLAN)
    assert fine.forecast is not None
    assert fine.forecast.is_faster
    assert (longer.outcome, longer.plan, longer.forecast, longer.speedup) == ("no-gain", BASELINE, None, None)
    assert (longer.tune_seconds, longer.nproc, longer.sources) == (100.0, 3, SOURCES)
    assert conclusion_words(longer) == (
        "what was compared trains 2.00 times faster in fresh processes, but a run with these arguments (400 "
        "steps): 6.4 s before, about "
        "44.0 s (33.9 to 54.1) under the plan (start 2.0 s -> 2.0 s; steps 4.0 s -> 2.0 s; evaluations and "
        "new epochs 400 ms -> 40.0 s). Leave out what costs that: name the others, each by --only"
    )
    assert from_json(TuneResult, json.loads(json.dumps(to_json(longer)))) == longer


def test_a_run_that_may_take_longer_is_no_reason_to_give_no_plan() -> None:
    result = with_ends(0.065)
    assert result.forecast is not None
    assert result.forecast.saved.value < 0 < result.forecast.saved.high
    assert (result.forecast.is_faster, result.forecast.is_slower) == (False, False)
    assert result.plan == PLAN


def test_a_run_whose_end_was_seen() -> None:
    found = told(ends_of(steps_in_all=40))
    assert (found.of, found.steps, found.epochs) == ("run", 40, 5)
    assert found.assumed == ("ends unseen",)
    assert found.before.value == pytest.approx(2.0 + 39 * 0.01, rel=0.02)


def test_the_length_of_the_script_is_told_with_the_result() -> None:
    found = Found(facts(), 100.0, verdict=verdict(), trial=confirmation(), ends=ends_of(steps_in_all=40))
    assert conclude(found).script_steps == 40
    shorter = replace(found, trial=confirmation(script_steps=30))
    assert conclude(shorter).script_steps == 30


def test_an_epoch_by_its_loader() -> None:
    found = told(ends_of())
    assert (found.of, found.steps) == ("epoch", 8)


def test_each_arm_has_what_came_between_its_own_epochs() -> None:
    plans = [(BASELINE, course(25, 8, 0.6))] * 2 + [(PLAN, course(25, 8, 0.2))] * 2
    found = told(ends_of(*plans, steps_in_all=40))
    assert (between(found).before.value, between(found).after.value) == pytest.approx((5 * 0.6, 5 * 0.2))
    assert found.assumed == ()


@pytest.mark.parametrize(
    ("name", "epochs", "in_memory", "assumed"),
    [
        ("dataset_in_ram", 0, False, True),
        ("sample_store", 0, False, True),
        ("dataset_in_ram", 1, False, False),
        ("batched_fetch", 0, True, False),
        ("malloc", 0, False, False),
    ],
)
def test_samples_kept_for_epochs_that_were_not_seen_are_assumed_to_stay(
    name: str, epochs: int, in_memory: bool, assumed: bool
) -> None:
    """The script may draw others for each."""
    watched = observation(
        loaders=(loader(in_memory=in_memory),), run=watched_run({"steps": 1.0}, epochs=epochs)
    )
    found = told(ends_of(steps_in_all=40), confirmation(Plan({name: {}})), watched)
    assert ("same samples" in found.assumed) == assumed


@pytest.mark.attack("truth")
def test_evaluations_in_mid_epoch_are_no_ends_of_epochs() -> None:
    """Both come, and the longer ends are the rarer ones: a mean of all would be neither."""
    steps = course(100, 40, end=2.0, evaluate=15, evaluation=0.3)
    found = told(ends_of((BASELINE, steps), (PLAN, steps), steps_in_all=400), watched=EPOCH)
    turns, evaluations = 9, 26  # between the steps of the run
    assert between(found).before.value == pytest.approx((turns + 1) * 2.0 + (evaluations + 1) * 0.3, rel=0.05)
    alone = told(ends_of((BASELINE, steps), (PLAN, steps)), watched=EPOCH)
    assert (alone.of, alone.steps) == ("epoch", 40)
    assert between(alone).before.value == pytest.approx(2.0 + 40 / 15 * 0.3, rel=0.05)


@pytest.mark.attack("truth")
def test_evaluations_in_mid_epoch_do_not_hide_that_no_end_of_one_was_seen() -> None:
    steps = course(35, 40, end=2.0, evaluate=15, evaluation=0.3)
    found = told(ends_of((BASELINE, steps), (PLAN, steps)), watched=EPOCH)
    assert "ends unseen" in found.assumed
    assert between(found).before.value == pytest.approx(40 / 15 * 0.3)


EPOCH = observation(run=WatchedRun(2.0, False, (), epoch_steps=40))


def test_ends_that_fell_into_the_steps_observed_count() -> None:
    steps = tuple(step(0.5 if n == 20 else 0.01, restarts=int(n == 20)) for n in range(30))
    watched = observation(steps=steps, warmup_steps=4)
    found = told(ends_of(steps_in_all=48), watched=watched)
    assert "ends unseen" not in found.assumed
    assert between(found).before.value == pytest.approx(2 * 0.49)
    alone = told(ends_of(steps_in_all=48), watched=watched, nproc=2)
    assert "ends unseen" in alone.assumed


# ---- the script's end
def tail(found: RunForecast) -> ForecastPart:
    (one,) = (part for part in found.parts if part.name == "tail")
    return one


def ended(plan: Plan, steps: Sequence[Step], rest: Step) -> EpochEnds:
    found = ends_of((plan, steps), steps_in_all=len(steps))
    found.note_tail(plan, rest)
    return found


@pytest.mark.attack("truth")
def test_what_comes_after_the_last_step_is_told() -> None:
    """A last evaluation, saving and the process's own end, as often as they come: once."""
    found = told(ended(BASELINE, course(40, 8, 0.6), step(3.0, evaluations=3, restarts=1)))
    assert tail(found).before.value == pytest.approx(3.0)
    assert between(found).before.value == pytest.approx(4 * 0.6)
    assert "ends unseen" not in found.assumed


def test_the_last_evaluation_gains_what_others_do() -> None:
    plain, planned = (course(40, 8, 0.0, evaluate=10, evaluation=seconds) for seconds in (0.6, 0.2))
    ends = ended(BASELINE, plain, step(3.0, evaluations=3, restarts=1))
    ends.note(PLAN, planned, 0)
    assert tail(told(ends)).after.value == pytest.approx(3.0 - 0.4)
    saves = ended(BASELINE, plain, step(3.0))
    saves.note(PLAN, planned, 0)
    assert tail(told(saves)).after.value == pytest.approx(3.0)


@pytest.mark.attack("truth")
def test_what_is_around_the_steps_of_a_run_is_known_once_it_was_seen() -> None:
    whole = ended(BASELINE, course(40, 8, 0.6), step(3.0, evaluations=3, restarts=1))
    assert around_steps(EPOCH, whole) == (40, 4 * 0.6 + 3.0)
    assert around_steps(EPOCH, ends_of((BASELINE, course(40, 8, 0.6)))) is None  # how long a run is
    varying = ended(BASELINE, course(40, 8, 0.6), step(1.0))
    varying.script_ended(90)
    assert around_steps(EPOCH, varying) is None


@pytest.mark.attack("truth")
def test_before_an_epochs_end_was_seen_nothing_is_known_of_what_is_around_steps() -> None:
    planned = EpochEnds(Rhythm(0, 0, 1, 0.01, planned_steps=400))
    assert around_steps(observation(loaders=()), planned) == (400, 0.0)  # there are no epochs
    epoch = observation(run=WatchedRun(3.0, False, (), epoch_steps=40))
    assert around_steps(epoch, planned) is None


def test_what_comes_between_the_steps_of_an_agent_is_not_called_an_epoch() -> None:
    """Its rollouts took 18 s of 29, and were said to be evaluations and new epochs."""
    agent = EpochEnds(Rhythm(0, 0, 1, 0.01, unit=STEPS))
    acts = [step(0.5 if n % 20 == 19 else 0.01, evaluations=5 * (n % 20 == 19)) for n in range(100)]
    for plan in (BASELINE, PLAN, BASELINE, PLAN):
        agent.note(plan, acts, 0)
    found = told(agent)
    assert {"epoch ends", "rollouts"} & {part.name for part in found.parts} == {"rollouts"}
    assert "; rollouts or evaluations between them " in "\n".join(forecast_lines(found, 10.0))


def test_a_training_without_epochs_is_not_said_to_have_come_to_no_end_of_one() -> None:
    whole_graph = EpochEnds(Rhythm(1, 0, 1, 0.01, unit=STEPS, planned_steps=400))
    for plan in (BASELINE, PLAN):
        whole_graph.note(plan, [step(evaluations=1)] * 40, 0)
    found = told(whole_graph, watched=observation(loaders=()))
    assert "rare unseen" in found.assumed
    assert "ends unseen" not in found.assumed
    assert "epoch" not in "\n".join(forecast_lines(found, 10.0))


def test_one_epoch_alone_has_nothing_between_and_that_is_known() -> None:
    watched = observation(run=WatchedRun(3.0, True, (), epoch_steps=40))
    found = told(ended(BASELINE, course(40, 40, 0.6), step(0.7, evaluations=3, restarts=1)), watched=watched)
    assert (found.epochs, found.assumed) == (1, ())
    assert [part.name for part in found.parts if part.name in ("epoch ends", "tail")] == ["tail"]


def test_a_script_that_was_watched_to_its_end_tells_what_came_after_its_last_step() -> None:
    steps = tuple(course(41, 50, 0.0)[11:])
    watched = observation(steps=steps, warmup_steps=11, rest=step(0.8, evaluations=3, restarts=1))
    found = told(ends_of(steps_in_all=41), watched=watched)
    assert tail(found).before.value == tail(found).after.value == pytest.approx(0.8)


@pytest.mark.attack("truth")
def test_a_script_that_stops_early_has_no_length() -> None:
    """Each process ended where its loss or its clock said so: a run is none of these."""
    ends = ended(BASELINE, course(60, 40, 0.6), step(1.0))
    ends.script_ended(90)
    assert told(ends, watched=EPOCH).of == "epoch"
    ends = ended(BASELINE, course(60, 40, 0.6), step(1.0))
    ends.script_ended(60)
    assert told(ends, watched=EPOCH).of == "run"


@pytest.mark.attack("truth")
def test_a_slow_first_epoch_is_not_taken_for_all_of_them() -> None:
    """The script keeps what it has decoded. Pairs train the first steps of a run, and see none of that."""
    steps = [
        replace(one, seconds=one.seconds / (4 if position > 40 else 1))
        for position, one in enumerate(course(120, 40, 0.0))
    ]
    found = told(ended(BASELINE, steps, step(0.1)), watched=EPOCH)
    (of_steps,) = (part for part in found.parts if part.name == "steps")
    assert of_steps.before.value == pytest.approx(0.4 + 0.8 / 4, rel=0.05)
    assert of_steps.after.value == pytest.approx(0.2 + 0.8 / 4, rel=0.05)
    assert of_steps.after.low < 0.2 + 0.1


def test_a_schedule_by_steps_is_no_number_of_epochs() -> None:
    """``while step < max_iters``: nothing begins again, and evaluations come by their count."""
    watched = observation(loaders=(), run=WatchedRun(2.0, False, ()))
    steps = [
        step(0.01 + (0.5 if n and not n % 25 else 0.0), evaluations=4 * bool(n and not n % 25))
        for n in range(110)
    ]
    found = told(ends_of((BASELINE, steps), (PLAN, steps)), watched=watched)
    assert (found.of, found.steps, found.pays_epochs) == ("steps", 1000, None)
    assert between(found).before.value == pytest.approx(40 * 0.5)
    whole = ended(BASELINE, steps, step(0.5, evaluations=4))
    whole.note(PLAN, steps, 0)
    found = told(whole, watched=watched)
    assert (found.of, found.steps, found.epochs, found.assumed) == ("run", 110, None, ())
    assert between(found).before.value == pytest.approx(4 * 0.5)


def test_an_epoch_that_was_watched_to_its_end_tells_what_comes_between() -> None:
    parts = (
        Part("steps", 0.18, 18),
        Part("first batches", 0.3, 3),
        Part("epoch turns", 0.02, 2),
        Part("evaluation", 0.8, 2),
        Part("output", 0.5, 9),
    )
    watched = observation(run=WatchedRun(3.0, False, parts, epochs=2, epoch_steps=9))
    found = told(ends_of(), watched=watched)
    assert (found.of, found.steps) == ("epoch", 9)
    assert between(found).before.value == pytest.approx(0.1 + 0.01 + 0.4)
    assert found.assumed == ("length by loader", "ends seen once", "ends of other plans")


def test_ranks_are_rehearsed_once_and_that_is_told() -> None:
    ranks = confirmation(Plan({"processes": {"count": 2}}))
    assert "rehearsed" in told(ends_of(steps_in_all=40), ranks).assumed


def test_without_a_claim_nothing_is_told_of_the_run() -> None:
    noise = trial([0.9, 1.1, 0.95, 1.02], PLAN, processes_a=confirmation().processes_a)
    assert forecast(ends_of(steps_in_all=40), noise) is None
    assert forecast(ends_of(), trial(RATIOS, PLAN)) is None  # processes that told nothing


def test_no_result_but_a_gain_has_one() -> None:
    empty: TuneResult = conclude(Found(facts(), 100.0))
    assert forecast_of(empty, None, ends_of()) is None


def over_stretches(*step_logs: float) -> Trial:
    """Evaluations take a quarter under the plan, and steps as long as before."""
    plain = tuple(SeenProcess(2.0, 0.01 + 0.0001 * number) for number in range(4))
    found = trial(RATIOS, PLAN, processes_a=plain, processes_b=plain)
    return found.over_stretches(("evaluation",), step_logs)


@pytest.mark.attack("truth")
def test_a_claim_over_whole_stretches_is_none_of_the_steps() -> None:
    plans = [(BASELINE, course(25, 8, 0.8 + 0.01 * number)) for number in range(4)]
    plans += [(PLAN, course(25, 8, 0.2 + 0.01 * number)) for number in range(4)]
    ends = ends_of(*plans, steps_in_all=40)
    found = told(ends, over_stretches(-0.01, 0.01, -0.005, 0.005))
    (steps,) = (one for one in found.parts if one.name == "steps")
    assert steps.after.value == pytest.approx(steps.before.value, rel=0.01)
    assert between(found).after.value < 0.5 * between(found).before.value
    assert found.is_faster


def test_without_regular_steps_in_the_stretches_nothing_is_foretold() -> None:
    assert forecast(ends_of(steps_in_all=40), over_stretches()) is None


@pytest.mark.attack("truth")
@pytest.mark.parametrize("ended", [True, False])
def test_a_loader_that_each_step_begins_anew_is_in_the_steps(ended: bool) -> None:
    """``next(iter(loader))``: what was waited for is not told a second time, between epochs of one step."""
    parts = (Part("steps", 0.4, 40), Part("first batches", 0.4, 40))
    watched = observation(run=WatchedRun(0.8, ended, parts, epochs=39))
    every_step = EpochEnds(Rhythm(0, 1, 1, 0.01, steps_in_all=40 if ended else None))
    found = told(every_step, watched=watched)
    assert "epoch ends" not in [part.name for part in found.parts]
