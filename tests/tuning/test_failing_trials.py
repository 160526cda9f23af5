"""A trial that failed is never a winner, however fast it was: each way to fail, from bench to result."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest

from hasten.bench.comparing.live import LiveBench
from hasten.bench.comparing.pairs import PairsBench
from hasten.bench.comparing.steps import Rhythm
from hasten.bench.workers.ending import PlanRefused
from hasten.errors import WorkerError
from hasten.records.plan import BASELINE, Plan
from hasten.records.trial import Trial
from hasten.records.verdict import GuardVerdict
from hasten.tuning.conclusion import Found, conclude
from hasten.tuning.reasons import reason_of
from tests.bench.made_up import facts, trial, verdict
from tests.bench.paper_workers import PaperTrials, PaperWorker

RHYTHM = Rhythm(evaluations=0, restarts=0, cycle=1, cycle_seconds=0.01)
FAST = Plan({"bf16": {}})


def trials(**changes: object) -> PaperTrials:
    """The plan makes a step twice as fast."""
    return PaperTrials(effects={"bf16": 0.5}, **changes)  # type: ignore[arg-type]


def with_losses(*losses: float) -> Callable[[PaperWorker], None]:
    def change(worker: PaperWorker) -> None:
        worker.losses = losses if worker.plan else (1.0,)

    return change


def failing(error: Exception) -> Callable[[PaperWorker], None]:
    def fail(worker: PaperWorker) -> None:
        if worker.plan:
            raise error

    return fail


FAILURES: dict[str, Callable[[], PaperTrials]] = {
    "non-zero exit": lambda: trials(length=60, how="exit", detail="3"),
    "an exception": lambda: trials(length=60, how="raised", detail="RuntimeError: no"),
    "killed": lambda: trials(on_steps=failing(WorkerError("killed by SIGKILL (out of memory?)"))),
    "the loss is NaN": lambda: trials(on_steps=with_losses(math.nan)),
    "the loss is infinite": lambda: trials(on_steps=with_losses(math.inf)),
    "the loss is missing": lambda: trials(on_steps=with_losses()),
    "too few steps": lambda: trials(length=15),
    "the technique is refused": lambda: trials(
        refused={"bf16": "not here"}, on_start=failing(PlanRefused("bf16", "not here"))
    ),
    "the technique has no effect": lambda: trials(effective=False),
}


@pytest.fixture(params=FAILURES)
def failed(request: pytest.FixtureRequest) -> PaperTrials:
    return FAILURES[request.param]()


def test_without_a_failure_it_would_win() -> None:
    confirmation = PairsBench(trials().as_trials(), RHYTHM).compare(BASELINE, FAST, 6)
    assert conclude(Found(facts(), 100.0, verdict=verdict(), trial=confirmation)).outcome == "gain"


def test_in_the_search_it_has_no_ratio(failed: PaperTrials) -> None:
    found = LiveBench(failed.as_trials(), RHYTHM).compare(BASELINE, FAST, 0.0)
    assert found.failure
    assert found.ratio is None


def test_in_the_confirmation_it_is_no_gain(failed: PaperTrials) -> None:
    confirmation = PairsBench(failed.as_trials(), RHYTHM).compare(BASELINE, FAST, 6)
    assert confirmation.failure
    no_gain(confirmation, verdict())


@pytest.mark.parametrize("judged", [None, verdict(passed=False)], ids=["guard not run", "guard failed"])
def test_without_the_guards_word_it_is_no_gain(judged: GuardVerdict | None) -> None:
    no_gain(trial((0.5, 0.51, 0.5, 0.49), FAST), judged)


def no_gain(confirmation: Trial, judged: GuardVerdict | None) -> None:
    result = conclude(Found(facts(), 100.0, verdict=judged, trial=confirmation))
    assert result.outcome == "no-gain"
    assert result.plan == BASELINE
    assert result.speedup is result.ratio is None
    assert result.reason


@pytest.mark.parametrize(
    ("base", "failure", "said"),
    [
        (BASELINE, "bf16: not here", "not here"),
        (Plan({"malloc": {}}), "malloc: not here", "malloc: not here"),  # another's: it keeps its name
        (BASELINE, "killed by SIGKILL", "killed by SIGKILL"),
    ],
)
def test_a_row_does_not_name_its_technique_again(base: Plan, failure: str, said: str) -> None:
    failed = trial((), a=base, b=Plan({**base.techniques, "bf16": {}}), failure=failure)
    assert reason_of(failed, kept=False).failure == said
