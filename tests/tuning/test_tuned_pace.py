"""What a run's steps may take by chance, by the processes that confirmed its plan."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest

from hasten.records.plan import BASELINE, Plan
from hasten.records.run_forecast import SeenProcess
from hasten.records.run_pace import TunedPace
from hasten.tuning.conclusion import Found, conclude
from hasten.tuning.tuned_pace import tuned_pace
from tests.bench.made_up import facts, trial, verdict

PLAN = Plan({"bf16": {}})
CLEAR = [0.5, 0.51, 0.49, 0.5]


def pace(steps: Sequence[float], samples: float | None = 64.0) -> TunedPace | None:
    processes = tuple(SeenProcess(1.0, step, samples=samples) for step in steps)
    return tuned_pace(trial(CLEAR, PLAN, processes_b=processes))


def test_it_is_the_median_of_processes() -> None:
    found = pace([0.010, 0.0101, 0.0099, 0.0102])
    assert found is not None
    assert found.step_seconds == pytest.approx(0.01005)
    assert found.samples == 64


def test_the_more_unlike_processes_are_the_more_a_run_may_take() -> None:
    alike, unlike = pace([0.010, 0.0101, 0.0099, 0.010]), pace([0.010, 0.011, 0.009, 0.010])
    assert alike is not None
    assert unlike is not None
    assert 1.05 < alike.most_seconds / alike.step_seconds < 1.2
    assert unlike.most_seconds > 1.5 * unlike.step_seconds


def test_the_more_processes_have_told_the_better_it_is_known() -> None:
    few, many = pace([0.010, 0.0103, 0.0097]), pace([0.010, 0.0103, 0.0097] * 4)
    assert few is not None
    assert many is not None
    assert many.most_seconds < few.most_seconds


def test_an_additional_slow_process_may_be_met_again() -> None:
    processes = tuple(SeenProcess(1.0, 0.01) for _ in range(4))
    found = tuned_pace(trial(CLEAR, PLAN, processes_b=processes, looks=(0.01, math.log(1.57), 0.0)))
    assert found is not None
    assert found.most_seconds == pytest.approx(0.0157)


@pytest.mark.parametrize("steps", [[], [0.01, 0.01], [0.01, 0.01, 0.0]])
def test_of_too_few_processes_nothing_is_known(steps: list[float]) -> None:
    assert pace(steps) is None


def test_a_gain_is_told_with_it() -> None:
    processes = tuple(SeenProcess(1.0, 0.01) for _ in range(4))
    confirmation = trial(CLEAR, PLAN, BASELINE, processes_b=processes)
    result = conclude(Found(facts(), 100.0, verdict=verdict(), trial=confirmation))
    assert result.pace is not None
    assert result.pace.step_seconds == pytest.approx(0.01)
    assert result.pace.samples is None


def test_without_a_gain_there_is_none() -> None:
    processes = tuple(SeenProcess(1.0, 0.01) for _ in range(4))
    confirmation = trial([0.9, 1.1, 0.95, 1.02], PLAN, processes_b=processes)
    assert conclude(Found(facts(), 100.0, verdict=verdict(), trial=confirmation)).pace is None


@pytest.mark.parametrize("evaluations", [False, True])
def test_a_run_is_not_compared_with_steps_that_are_evaluations(evaluations: bool) -> None:
    """Its own steps are updates."""
    processes = (SeenProcess(1.0, 0.01),) * 4
    found = Found(
        facts(steps_are_evaluations=evaluations),
        100.0,
        verdict=verdict(),
        trial=trial(CLEAR, PLAN, processes_b=processes),
    )
    assert (conclude(found).pace is None) is evaluations
