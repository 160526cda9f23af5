"""The simulation of confirmations: that it does what PairsBench does, and the noise what it says."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from benchmarks.coverage import claims, of_the_plan
from benchmarks.noise import SELDOM_SLOW, STEADY, TWO_STATES, Noise, machine_part, own_part
from benchmarks.paired import (
    CASES,
    PLAN,
    RHYTHM,
    B,
    Case,
    Draws,
    SimulatedTrials,
    check,
    draw,
    draw_alone,
    log_ratios,
    schedule_of_pairs,
    seconds_alone,
    seconds_of,
)

from hasten.bench.comparing.decisions import LOOKS_MOST
from hasten.bench.comparing.pairs import PairsBench
from hasten.records.plan import BASELINE

SILENT = Noise(process_sd=0.0, step_sd=0.0, spike_share=0.0, cold=0.0)


def source() -> np.random.Generator:
    return np.random.default_rng(20261120)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
@pytest.mark.parametrize("effect", [0.5, 1.0, 1.3])
def test_the_vectorised_comparison_is_pairs_bench(case: Case, effect: float) -> None:
    schedule = schedule_of_pairs()
    draws = draw(case, schedule, comparisons=3, pairs=5, source=source())
    assert check(draws, schedule, 3, effect) < 1e-9


def test_the_check_would_see_another_order() -> None:
    schedule = schedule_of_pairs()
    other = replace(schedule, when=schedule.when[::-1])
    draws = draw(CASES[0], schedule, comparisons=3, pairs=5, source=source())
    assert check(draws, other, 3, 1.0) > 1e-4


def test_processes_alone_take_the_times_that_pairs_bench_sees() -> None:
    schedule = schedule_of_pairs()
    draws = draw(CASES[4], schedule, 1, 4, source())
    alone = draw_alone(CASES[4].b, schedule, 1, source())
    trials = SimulatedTrials(own=draws.own[0], machine=draws.machine[0], alone=alone)
    bench = PairsBench(trials.as_trials(), RHYTHM)
    bench.compare(BASELINE, PLAN, 4)
    seconds = [one for _ in range(LOOKS_MOST // 2) for one in bench.singles([PLAN, PLAN])]
    step = bench.sample_seconds_b[0] / seconds_of(B, draws, schedule)[0, 0]
    assert bench.sample_seconds_b == pytest.approx(step * seconds_of(B, draws, schedule)[0])
    assert seconds == pytest.approx(step * seconds_alone(alone, schedule)[0])


@pytest.mark.attack("truth")
@pytest.mark.parametrize("pairs", [4, 6, 10])
def test_slow_processes_that_no_pair_shows_make_few_false_claims(pairs: int) -> None:
    """One process of the plan in ten is slow: the bound alone claims what is not a gain in 5 to 10%."""
    schedule, case, often = schedule_of_pairs(), CASES[4], 2000
    drawn = source()
    draws = draw(case, schedule, often, pairs, drawn)
    alone = seconds_alone(draw_alone(case.b, schedule, often, drawn), schedule)
    values = log_ratios(draws, schedule)
    seconds = np.concatenate([seconds_of(B, draws, schedule), alone], axis=1)
    found = claims(values - values.mean(), seconds, 0.0)
    assert found["claimed_by_the_bound"] > 0.035
    assert found["claimed_at_once"] < 0.004
    assert found["claimed"] <= 0.015


def test_the_plans_processes_are_those_of_its_pairs_and_those_alone() -> None:
    assert of_the_plan(np.arange(13.0)[None], 4).tolist() == [[0, 1, 2, 3, 10, 11, 12]]


def test_without_noise_the_ratio_is_one() -> None:
    schedule = schedule_of_pairs()
    draws = draw(Case("", "", SILENT, SILENT), schedule, 2, 4, source())
    still = Draws(draws.own, np.zeros_like(draws.machine))
    assert np.abs(log_ratios(still, schedule)).max() < 1e-12


def test_a_steady_drift_of_the_machine_cancels() -> None:
    schedule = schedule_of_pairs()
    draws = draw(Case("", "", SILENT, SILENT), schedule, 1, 4, source())
    drifting = Draws(draws.own, np.broadcast_to(1e-3 * np.arange(2 * schedule.steps), draws.machine.shape))
    assert np.abs(log_ratios(drifting, schedule)).max() < 5e-4, "of 15% in all"


@pytest.mark.parametrize("noise", [STEADY, TWO_STATES, SELDOM_SLOW])
def test_processes_differ_as_much_as_is_said(noise: Noise) -> None:
    alone = replace(SILENT, process_sd=noise.process_sd, process_tails=noise.process_tails)
    drawn = own_part(alone, (50_000,), 2, [], source())
    assert drawn[:, 0].std() == pytest.approx(noise.process_sd, rel=0.05)
    assert np.array_equal(drawn[:, 0], drawn[:, 1])


def test_steps_vary_and_follow_each_other_as_is_said() -> None:
    drawn = own_part(replace(SILENT, step_sd=0.02, correlation=0.5), (20_000,), 10, [], source())
    assert drawn[:, 9].std() == pytest.approx(0.02, rel=0.03)
    assert np.corrcoef(drawn[:, 4], drawn[:, 5])[0, 1] == pytest.approx(0.5, abs=0.03)


@pytest.mark.parametrize("noise", [TWO_STATES, SELDOM_SLOW])
def test_processes_are_slow_for_the_share_of_time_that_is_said(noise: Noise) -> None:
    states = replace(SILENT, slow_by=noise.slow_by, to_slow=noise.to_slow, to_fast=noise.to_fast)
    drawn = own_part(states, (20_000,), 60, [], source())
    assert set(np.unique(drawn)) == {0.0, math.log(22 / 14)}
    assert (drawn[:, 0] > 0).mean() == pytest.approx(noise.slow_share, abs=0.012)
    assert (drawn[:, 59] > 0).mean() == pytest.approx(noise.slow_share, abs=0.012)


def test_spikes_and_cold_steps_come_on_top() -> None:
    spiky = replace(SILENT, spike_share=0.01, spike_size=0.7)
    drawn = own_part(spiky, (10_000,), 20, [], source())
    assert (drawn > 0).mean() == pytest.approx(0.01, rel=0.1)
    assert drawn[drawn > 0].mean() == pytest.approx(0.7, rel=0.1)
    cold = own_part(replace(SILENT, cold=0.3), (3,), 5, [1, 4], source())
    assert np.array_equal(cold[0], [0, 0.3, 0, 0, 0.3])


def test_the_machine_drifts() -> None:
    walk = machine_part((20_000,), 100, source())
    assert walk[:, 99].std() == pytest.approx(0.002 * 10, rel=0.03)
