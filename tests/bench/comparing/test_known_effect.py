"""What a plan truly does to a real training is found by pairs of fresh processes, in its direction and size.

Nothing here is about how fast the machine is. A machine at work makes pairs scatter, and then more are run.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hasten.bench.comparing.decisions import is_gain
from hasten.bench.comparing.pairs import PairsBench
from hasten.bench.comparing.statistics import interval
from hasten.bench.comparing.steps import STEPS, Rhythm
from hasten.bench.trials import Trials
from hasten.inside.techniques.base import Technique
from hasten.inside.techniques.catalog import CATALOG
from hasten.launch import one_process
from hasten.records.plan import BASELINE, Plan
from tests.bench import busy_techniques
from tests.bench.busy_techniques import (
    KINDS,
    ROUNDS,
    Faster,
    Slower,
    busy_plan,
    rounds_under,
    true_log_ratio,
)
from tests.bench.busy_techniques import SCRIPT as BUSY
from tests.bench.known_techniques import known_to_workers
from tests.bench.real_workers import trials_for

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="stops processes by signals")

RHYTHM = Rhythm(evaluations=0, restarts=0, cycle=1, cycle_seconds=0.004, unit=STEPS)
LEAST_PAIRS, MOST_PAIRS = 4, 20  # pairs that vary by 30% are still enough then
RESTS = (0.0, ROUNDS / 4)  # what of a step is not counted work, in rounds: at least and at most
WIDENED = 1.05


@pytest.fixture
def trials(tmp_path: Path) -> Iterator[Trials]:
    with known_to_workers(busy_techniques.__file__, KINDS), trials_for(tmp_path, BUSY) as made:
        yield made


def clear(log_ratios: list[float]) -> bool:
    """Whether the interval excludes 1, on whichever side."""
    ratio = interval(log_ratios, "pairs")
    return ratio is not None and ratio.count >= LEAST_PAIRS and not ratio.low <= 1 <= ratio.high


@pytest.mark.thorough
@pytest.mark.timeout(1200)  # where the machine is at work, there are more pairs, and each takes longer
@pytest.mark.parametrize("gain", [-0.3, 0.3])
def test_what_is_30_percent_off_is_found_with_its_direction_and_size(trials: Trials, gain: float) -> None:
    plan = busy_plan(gain)
    trial = PairsBench(trials, RHYTHM).compare(BASELINE, plan, MOST_PAIRS, enough=clear)
    assert trial.failure is None
    assert trial.ratio is not None
    if gain > 0:
        assert trial.ratio.high < 1
    else:
        assert trial.ratio.low > 1
        assert not is_gain(trial.log_ratios)
    wide = interval(trial.log_ratios, "pairs", 0.999)
    truths = [math.exp(true_log_ratio(rounds_under(BASELINE), rounds_under(plan), rest)) for rest in RESTS]
    assert wide is not None
    assert wide.low / WIDENED <= max(truths)
    assert min(truths) <= wide.high * WIDENED
    (proof,) = trial.proofs
    assert proof.evidence.startswith(f"{abs(rounds_under(plan) - ROUNDS)} rounds, in ")


def test_the_same_against_the_same_is_two_plans_and_no_work() -> None:
    assert busy_plan(0.0) != BASELINE
    assert rounds_under(busy_plan(0.0)) == ROUNDS


@pytest.mark.parametrize(("gain", "ratio"), [(0.05, 1 / 1.05), (0.3, 1 / 1.3), (-0.05, 1.05), (-0.3, 1.3)])
def test_rounds_make_the_ratio_asked_for(gain: float, ratio: float) -> None:
    rounds = rounds_under(BASELINE), rounds_under(busy_plan(gain))
    assert math.exp(true_log_ratio(*rounds, rest=0.0)) == pytest.approx(ratio, abs=2 / ROUNDS)
    with_rest = math.exp(true_log_ratio(*rounds, rest=ROUNDS / 10))
    assert abs(with_rest - 1) == pytest.approx(abs(ratio - 1) / 1.1, rel=1e-3)


def test_a_rest_that_is_wrong_by_a_fifth_hardly_matters() -> None:
    """As busy_techniques says, of a rest of 3%."""
    rest = 0.03 * ROUNDS
    for gain, most in ((0.03, 0.0002), (0.3, 0.002)):
        rounds = ROUNDS, rounds_under(busy_plan(gain))
        assert abs(true_log_ratio(*rounds, rest) - true_log_ratio(*rounds, 1.2 * rest)) < most


@pytest.mark.parametrize("technique", [Slower, Faster])
@pytest.mark.parametrize("settings", [{}, {"rounds": -1}, {"rounds": 0.5}, {"rounds": 1, "more": 2}])
def test_settings_that_mean_nothing_are_refused(
    technique: type[Technique], settings: dict[str, float]
) -> None:
    with pytest.raises(ValueError, match="needs rounds"):
        technique.check(settings)


def test_the_catalogue_is_put_back() -> None:
    before, bootstrap = dict(CATALOG), one_process.BOOTSTRAP
    with known_to_workers(busy_techniques.__file__, KINDS):
        assert set(CATALOG) == {*before, "slower", "faster"}
        assert bootstrap != one_process.BOOTSTRAP
    assert before == CATALOG
    assert bootstrap == one_process.BOOTSTRAP


def test_more_than_there_is_cannot_be_taken_away(trials: Trials) -> None:
    trial = PairsBench(trials, RHYTHM).compare(BASELINE, Plan({"faster": {"rounds": 2 * ROUNDS}}), 4)
    assert trial.failure == f"faster: a step has {ROUNDS} rounds, {2 * ROUNDS} cannot be taken away"
