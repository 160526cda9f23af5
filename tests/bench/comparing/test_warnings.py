"""What may spoil a measurement, told from made-up readings, steps and confirmations."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest

from hasten.bench.comparing.warnings import before_tuning, has_two_speeds, while_tuning
from hasten.records.caution import Caution
from hasten.records.plan import Plan
from hasten.records.trial import Trial
from hasten.records.vitals import Vitals
from tests.bench.made_up import loader, observation, step, trial

QUIET = Vitals(1000, 10_000, 100, 3, 50, 7, (1980,))


def steps(times: Sequence[float]) -> Any:
    return observation(steps=tuple(step(seconds) for seconds in times))


def even(count: int = 60) -> list[float]:
    noise = random.Random(0)
    return [0.01 * noise.lognormvariate(0, 0.03) for _ in range(count)]


def found(
    after: Vitals = QUIET, times: Sequence[float] = (), confirmation: Trial | None = None
) -> list[Caution]:
    return while_tuning(QUIET, after, steps(times or even()), confirmation)


# ---- before
@pytest.mark.parametrize(("busy", "told"), [(190, []), (420, [Caution("busy", share=0.42)])])
def test_a_busy_machine_is_told_with_its_share(busy: int, told: list[Caution]) -> None:
    assert before_tuning(QUIET, Vitals(1000 + busy, 11_000)) == told


def test_counters_that_stand_still_or_are_not_there_say_nothing() -> None:
    assert before_tuning(QUIET, QUIET) == before_tuning(Vitals(), Vitals()) == []
    assert while_tuning(Vitals(), Vitals(), steps(even()), None) == []


# ---- the machine meanwhile
def test_a_steady_machine_is_no_matter() -> None:
    assert found(Vitals(1900, 11_000, 200, 5, 60, 7, (1995,))) == []


@pytest.mark.parametrize(
    ("after", "told"),
    [
        (Vitals(quota_periods=200, quota_stops=13), Caution("quota", share=0.1)),
        (Vitals(swapped_pages=5000), Caution("swapped")),
        (Vitals(heat_stops=9), Caution("hot", count=2)),
        (Vitals(gpu_clocks=(1400,)), Caution("gpu clock")),
    ],
)
def test_what_happened_to_the_machine_is_told(after: Vitals, told: Caution) -> None:
    assert found(after) == [told]


# ---- the steps
def test_few_steps_are_told() -> None:
    assert found(times=even(12)) == [Caution("few blocks", count=12)]


def test_a_warm_up_that_is_not_over_is_told() -> None:
    (warning,) = found(times=[0.02 - 0.0001 * n for n in range(60)])
    assert warning.code == "warming up"
    assert warning.share == pytest.approx(0.01905 / 0.01505 - 1)  # medians of the first and the last third


def test_steps_that_take_ever_longer_are_told() -> None:
    (warning,) = found(times=[0.01 + 0.0001 * n for n in range(60)])
    assert warning.code == "growing"
    assert warning.share == pytest.approx(0.01495 / 0.01095 - 1)


def test_steps_that_became_slower_at_once_do_not_grow() -> None:
    warnings = found(times=[0.01] * 30 + [0.013] * 30)
    assert "growing" not in [one.code for one in warnings]


def test_two_speeds_are_told() -> None:
    times = [time * (1.5 if n // 5 % 2 else 1.0) for n, time in enumerate(even())]
    assert found(times=times) == [Caution("two speeds")]


@pytest.mark.parametrize("seed", range(20))
def test_one_speed_with_noise_or_spikes_is_not_two(seed: int) -> None:
    noise = random.Random(seed)
    times = [0.01 * noise.lognormvariate(0, 0.1) for _ in range(60)]
    spikes = [time * (4.0 if noise.random() < 0.05 else 1.0) for time in times]
    assert not has_two_speeds(times)
    assert not has_two_speeds(spikes)
    assert not has_two_speeds([noise.uniform(0.01, 0.014) for _ in range(60)])


def test_equal_times_have_one_speed() -> None:
    assert not has_two_speeds([0.01] * 60)


# ---- the confirmation
@pytest.mark.parametrize(("seconds", "told"), [(0.011, False), (0.02, True)])
def test_a_machine_that_became_slower_is_told(seconds: float, told: bool) -> None:
    confirmation = trial((0.5,) * 4, Plan({"bf16": {}}), step_seconds_a=seconds)
    warnings = found(confirmation=confirmation)
    assert [warning.code for warning in warnings] == ["became slower"] * told
    assert all(warning.times == pytest.approx(2.0, rel=0.02) for warning in warnings)


@pytest.mark.parametrize("workers", [0, 2])
def test_steps_that_wait_now_and_then_are_compared_by_what_they_are_timed_by(workers: int) -> None:
    watched = observation(
        steps=tuple(step(seconds) for seconds in [0.01, 0.01, 0.04] * 20), loaders=(loader(workers=workers),)
    )
    confirmation = trial((0.5,) * 4, Plan({"bf16": {}}), step_seconds_a=0.02)
    told = [one.code for one in while_tuning(QUIET, QUIET, watched, confirmation)]
    assert ("became slower" in told) is (not workers)


def test_evaluations_within_stretches_are_no_slower_machine() -> None:
    confirmation = trial((0.5,) * 4, Plan({"bf16": {}}), step_seconds_a=0.4)
    assert found(confirmation=confirmation.over_stretches(("evaluation",), ())) == []
