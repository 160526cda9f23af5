"""What a plan truly does to the evaluations of a real training is found over whole epochs; what it only moves
into the steps is no gain. Nothing here is about how fast the machine is.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hasten.bench.comparing import stretch_course
from hasten.bench.comparing.decisions import is_gain
from hasten.bench.comparing.statistics import interval
from hasten.bench.comparing.steps import Rhythm
from hasten.bench.comparing.stretches import StretchBench
from hasten.bench.trials import Trials
from hasten.records.plan import BASELINE
from hasten.records.trial import Seen
from tests.bench import evaluation_techniques
from tests.bench.evaluation_techniques import (
    KINDS,
    SCRIPT,
    Moved,
    Quicker,
    plan_with,
    true_log_ratio,
)
from tests.bench.known_techniques import known_to_workers
from tests.bench.real_workers import trials_for
from tests.inside.distributed.forked import workers_forked

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="stops processes by signals")

RHYTHM = Rhythm(evaluations=0, restarts=0, cycle=1, cycle_seconds=0.002)
MOST_PAIRS = 12
LEAST_ALONE, WIDENED = 0.5, 1.1  # of an epoch, evaluations take at least half, whatever else it holds


@pytest.fixture
def trials(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Trials]:
    monkeypatch.setattr(
        stretch_course, "_TIMED_SECONDS", 0.6
    )  # pairs of short stretches scatter, but take less time
    known = known_to_workers(evaluation_techniques.__file__, KINDS)
    with known, workers_forked(), trials_for(tmp_path, SCRIPT) as made:
        yield made


@pytest.mark.timeout(900)  # where the machine is at work, there are more pairs, and each takes longer
@pytest.mark.thorough
def test_evaluations_of_half_the_work_are_found(trials: Trials) -> None:
    bench, plan = StretchBench(trials, RHYTHM), plan_with(Quicker, 0.5)
    seen = bench.seek(BASELINE, plan, 120.0)
    assert isinstance(seen, Seen)
    assert seen.share is not None
    assert seen.share > LEAST_ALONE
    trial = bench.compare(BASELINE, plan, MOST_PAIRS, lambda logs: clear(logs, least=2))
    assert trial.failure is None
    assert trial.parts == ("evaluation",)
    assert trial.ratio is not None
    assert trial.ratio.high < 1
    wide = interval(trial.log_ratios, "pairs", 0.999)
    assert wide is not None
    assert wide.low / WIDENED <= math.exp(true_log_ratio(0.5)) <= wide.high * WIDENED
    assert len(trial.step_log_ratios) == len(trial.log_ratios)


@pytest.mark.thorough
@pytest.mark.attack("truth")
@pytest.mark.timeout(900)
def test_evaluations_whose_work_is_moved_into_the_steps_are_no_gain(trials: Trials) -> None:
    bench, plan = StretchBench(trials, RHYTHM), plan_with(Moved, 0.5)
    bench.early = False  # as a confirmation: a search gives both the steps of both
    assert isinstance(bench.seek(BASELINE, plan, 120.0), Seen)
    trial = bench.compare(BASELINE, plan, 4)
    assert trial.failure is None
    assert not is_gain(trial.log_ratios)
    steps = interval(trial.step_log_ratios, "pairs")
    assert steps is not None
    assert steps.value > 1.5, "the steps that it has moved into are slower, and that is told"


def clear(log_ratios: list[float], least: int) -> bool:
    """Whether the interval excludes 1."""
    ratio = interval(log_ratios, "pairs")
    return ratio is not None and ratio.count >= least and not ratio.low <= 1 <= ratio.high
