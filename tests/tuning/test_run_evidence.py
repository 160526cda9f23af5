"""What a tune has found, told of the whole run."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from hasten.bench.comparing.epoch_ends import EpochEnd, EpochEnds
from hasten.bench.comparing.steps import Rhythm
from hasten.records.observation import Observation
from hasten.records.plan import BASELINE, Plan
from hasten.records.result import TuneResult
from hasten.records.run_forecast import RunForecast, SeenProcess
from hasten.records.trial import Trial
from hasten.records.whole_run import Part, WatchedRun
from hasten.tuning.conclusion import Found, conclude
from hasten.tuning.run_evidence import forecast_of
from tests.bench.made_up import facts, observation, step, trial, verdict

PLAN = Plan({"malloc": {}})
RATIOS = [0.5, 0.51, 0.49, 0.5]


def confirmation(plan: Plan = PLAN, **changes: Any) -> Trial:
    plain = tuple(SeenProcess(2.0, 0.01 + 0.0001 * number) for number in range(4))
    planned = tuple(SeenProcess(2.0, one.step_seconds / 2) for one in plain)
    return trial(RATIOS, plan, processes_a=plain, processes_b=planned, **changes)


def ends_of(*seen: EpochEnd, steps_in_all: int | None = None) -> EpochEnds:
    return EpochEnds(Rhythm(0, 0, 1, 0.01, steps_in_all=steps_in_all), seen=list(seen))


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


def told(*args: object, **more: object) -> RunForecast:
    found = forecast(*args, **more)  # type: ignore[arg-type]
    assert found is not None
    return found


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
    ends = ends_of(*[EpochEnd(BASELINE, 0.6)] * 2, *[EpochEnd(PLAN, 0.2)] * 2, steps_in_all=40)
    ends.note(PLAN, [step(), *[step()] * 7, step(0.21, restarts=1)], 0)
    found = told(ends)
    (one,) = (part for part in found.parts if part.name == "epoch ends")
    assert (one.before.value, one.after.value) == pytest.approx((5 * 0.6, 5 * 0.2))
    assert found.assumed == ()


def test_ends_that_fell_into_the_steps_observed_count() -> None:
    steps = tuple(step(0.5 if n == 20 else 0.01, restarts=int(n == 20)) for n in range(30))
    watched = observation(steps=steps, warmup_steps=4)
    found = told(ends_of(steps_in_all=48), watched=watched)
    assert "ends unseen" not in found.assumed
    (one,) = (part for part in found.parts if part.name == "epoch ends")
    assert one.before.value == pytest.approx(2 * 0.49)
    alone = told(ends_of(steps_in_all=48), watched=watched, nproc=2)
    assert "ends unseen" in alone.assumed


def test_a_plain_run_watched_to_its_end_tells_what_comes_besides_its_steps() -> None:
    parts = (Part("start", 2.0, 1), Part("steps", 0.4, 40), Part("evaluation", 0.7, 1), Part("tail", 0.1, 1))
    watched = observation(run=WatchedRun(3.2, True, parts))
    found = told(ends_of(steps_in_all=40), watched=watched)
    (one,) = (part for part in found.parts if part.name == "epoch ends")
    assert one.before.value == one.after.value == pytest.approx(0.8)
    assert found.assumed == ("ends seen once", "ends as plain")
    going_on = observation(run=WatchedRun(3.2, False, parts))
    assert told(ends_of(steps_in_all=40), watched=going_on).assumed == ("ends unseen",)


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
    (one,) = (part for part in found.parts if part.name == "epoch ends")
    assert one.before.value == pytest.approx(0.1 + 0.01 + 0.4)
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
    ends = ends_of(
        *(EpochEnd(BASELINE, 0.8 + 0.01 * number) for number in range(4)),
        *(EpochEnd(PLAN, 0.2 + 0.01 * number) for number in range(4)),
        steps_in_all=40,
    )
    ends._now = (8, 64)
    found = told(ends, over_stretches(-0.01, 0.01, -0.005, 0.005))
    steps, between = ({one.name: one for one in found.parts}[name] for name in ("steps", "epoch ends"))
    assert steps.after.value == pytest.approx(steps.before.value, rel=0.01)
    assert between.after.value < 0.5 * between.before.value
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
