"""More baselines, with more noise, where a plan would be refused for nothing but what has grown."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from hasten.bench.guard import amplified
from hasten.bench.guard.amplified import (
    BASELINES,
    ROUNDS,
    SHARE,
    TIMES,
    More,
    by_more_baselines,
    counted,
    may_have_turned,
)
from hasten.bench.guard.checked_steps import Check, Watched, checked_steps
from hasten.bench.guard.departures import departure
from hasten.bench.guard.judging import verdict_on
from hasten.bench.guard.single_steps import ROUNDING
from hasten.bench.trials import Trials
from hasten.bench.workers.ending import BudgetOver
from hasten.bench.workers.worker import Worker
from hasten.errors import WorkerError
from hasten.inside.job import Perturbation
from hasten.records.plan import Plan
from hasten.records.verdict import GuardVerdict
from hasten.report.guard import reasons
from tests.bench.faulty_techniques import TRAINING, TRAININGS
from tests.bench.guard.test_guard import FLOAT32, Trace, changed, training, with_losses
from tests.bench.guard.test_single_steps import checks, sums
from tests.bench.real_workers import trials_for
from tests.inside.distributed.forked import workers_forked

NOBODY = cast(Trials, None)
BASELINE = Watched(training(), checks())
NOISY = Watched(training(noise=FLOAT32), checks(since={"parameters": sums(noise=1e-6)}))
JUMP = 0.002  # of a unit that turned at step 30


def jumped(size: float = JUMP) -> Trace:
    return with_losses(lambda n: 1 + size if n > 30 else 1.0)


def judged(candidate: Watched, more: More | None = None) -> GuardVerdict:
    more = more or More()
    return verdict_on(BASELINE, NOISY, candidate, False, "float32", more.grown, more.noisier)


def by_more(candidate: Watched) -> GuardVerdict:
    (found,) = by_more_baselines(lambda more: [judged(candidate, more)], NOBODY, False, "float32", 0, 0)
    return found


@pytest.fixture
def showing(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[More]]:
    """What more baselines show, and over how many steps; taken when they are asked for."""
    shown: list[More] = []
    monkeypatch.setattr(amplified, "more_baselines", lambda *_: shown.pop(0))
    yield shown
    assert not shown, "fewer baselines were trained"


def test_what_as_many_units_turn_in_more_baselines_is_no_departure(
    showing: list[More],
) -> None:
    plan = Watched(jumped(), checks())
    assert judged(plan).accuracy == "not held"
    one = counted(BASELINE, Watched(jumped(), checks()), SHARE, False)
    showing.append(More([NOISY, one, NOISY, NOISY], steps=60))
    assert by_more(plan).passed


def test_as_many_again_are_trained_until_one_shows_it(showing: list[More]) -> None:
    one = counted(BASELINE, Watched(jumped(), checks()), SHARE, False)
    showing += [More([NOISY], steps=60), More([one], steps=60)]
    assert by_more(Watched(jumped(), checks())).passed


def test_what_drifts_as_far_in_one_of_them_is_none_either(showing: list[More]) -> None:
    drifted = checks(since={"parameters": sums(noise=0.3)})
    plan = Watched(training(), drifted)
    assert judged(plan).accuracy == "not held"
    showing.append(More([counted(BASELINE, Watched(training(), drifted), SHARE, False)], steps=60))
    assert by_more(plan).passed


def test_what_none_of_them_shows_stays_refused(showing: list[More]) -> None:
    less = counted(BASELINE, Watched(jumped(JUMP / 20), checks()), SHARE, False)
    showing += [More([NOISY, less], steps=60)] * ROUNDS
    found = by_more(Watched(jumped(), checks()))
    assert found.accuracy == "not held"
    assert not found.cut_short
    (reason,) = reasons(found)
    assert reason.startswith("the loss differs from the baseline's by 0.1")


# ---- a unit that turns in a single step
def turned(noise: float) -> list[Check]:
    """In step 2 alone."""
    first, second, *rest = checks()
    moved = sums(noise=noise)
    return [first, replace(second, gradient={"weight": moved, "bias": moved}), *rest]


def test_a_gradient_may_depart_as_far_as_in_the_same_step_of_one_of_them(showing: list[More]) -> None:
    plan = Watched(training(), turned(0.07))
    assert judged(plan).accuracy == "not held"
    showing.append(More([], [*checks(), *turned(0.06)], 60))
    assert by_more(plan).passed


@pytest.mark.attack("truth")
@pytest.mark.parametrize(
    ("candidate", "noisier"),
    [(turned(0.1), turned(0.06)), (turned(0.07), checks()[:1] + checks(noise=0.06)[2:])],
    ids=["less far", "in another step"],
)
def test_and_no_farther(candidate: list[Check], noisier: list[Check], showing: list[More]) -> None:
    showing += [More([], noisier, 60)] * ROUNDS
    found = by_more(Watched(training(), candidate))
    assert found.accuracy == "not held"
    assert "in step 2, where rounding explains" in reasons(found)[0]


@pytest.mark.attack("truth")
def test_a_scale_in_most_steps_is_no_unit_that_turns() -> None:
    """Whatever more noise does to them."""
    found = judged(Watched(training(), checks(1.01)), More([], checks(1.5), 60))
    assert found.accuracy == "not held"
    assert [reason.partition(" the baseline's ")[2] for reason in reasons(found)] == [
        "on average over 3 steps, where rounding explains 0.50%",
        "in most of 3 steps, where rounding explains 0.50%",
    ]


STEPS_LIE_APART = Watched(jumped(), checks(1.01))
OTHER_BATCHES = Watched([*changed(40, batches=("another",))[:40], *jumped()[40:]], checks())


@pytest.mark.attack("truth")
@pytest.mark.parametrize(
    "plan",
    [
        BASELINE,
        STEPS_LIE_APART,
        OTHER_BATCHES,
        Watched(jumped(), checks(counts=("step of weight",))),
        Watched(jumped(), checks(update={"weight": sums(1.02)})),
        Watched(changed(5, losses=(math.nan,)), checks()),
    ],
    ids=["held", "gradients", "batches", "counts", "updates", "no number"],
)
def test_what_shows_in_a_single_step_is_not_asked_of_them(
    plan: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: object) -> None:
        raise AssertionError("baselines were trained")

    monkeypatch.setattr(amplified, "more_baselines", never)
    assert not may_have_turned(judged(plan), "float32", False)
    assert by_more(plan) == judged(plan)


@pytest.mark.parametrize("over", [True, False], ids=["none", "few steps"])
def test_where_time_ends_the_verdict_says_so(over: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    def more(*_: object) -> More:
        if over:
            raise BudgetOver("the budget ended")
        return More([replace(NOISY, trace=NOISY.trace[:25])], steps=25)

    monkeypatch.setattr(amplified, "more_baselines", more)
    found = by_more(Watched(jumped(), checks()))
    assert (found.accuracy, found.cut_short) == ("not held", True)
    *_, last = reasons(found)
    assert last.endswith("try a larger --budget")


def test_where_they_fail_the_verdict_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*_: object) -> None:
        raise WorkerError("the script's process was killed")

    monkeypatch.setattr(amplified, "more_baselines", failing)
    assert by_more(Watched(jumped(), checks())) == judged(Watched(jumped(), checks()))


# ---- what they count for
def test_they_count_for_a_share_of_what_they_show() -> None:
    found = counted(
        BASELINE, Watched(jumped(0.01), checks(since={"parameters": sums(0.9, 0.2)})), 0.25, False
    )
    for ours, step in zip(BASELINE.trace, found.trace, strict=True):
        (before,), (after,) = ours.losses, step.losses
        assert after / before == pytest.approx(1.0025 if after != before else 1.0)
    assert found.trace[-1].losses != BASELINE.trace[-1].losses
    departed = departure(found.checks[0].since["parameters"])
    assert departed.residual == pytest.approx(math.hypot(0.1, 0.2) / 4)
    held = [check.gradient or check.update or check.buffers or check.counts for check in found.checks]
    assert not any(held)


@pytest.mark.attack("truth")
@pytest.mark.parametrize(
    "other",
    [
        changed(15, losses=(math.nan,)),
        changed(15, losses=(1.0, 1.0)),
        changed(15, rates=((0.5,),)),
        training()[:14],
    ],
    ids=["no number", "more losses", "another learning rate", "ended"],
)
def test_they_count_as_long_as_they_are_the_same_training(other: Trace) -> None:
    """What is learned at another rate, say, tells nothing of rounding."""
    found = counted(BASELINE, Watched(other, checks()), SHARE, False)
    assert len(found.trace) == 14
    assert [check.step for check in found.checks] == [1, 2]
    assert all(map(math.isfinite, (loss for step in found.trace for loss in step.losses)))


@pytest.mark.parametrize(
    ("draws", "precision", "times"),
    [
        (False, "float32", TIMES),
        pytest.param(False, "bfloat16", 1.0, marks=pytest.mark.thorough),
        pytest.param(True, "float32", 1.0, marks=pytest.mark.thorough),
    ],
)
def test_real_ones_have_more_noise_where_there_is_little(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, draws: bool, precision: str, times: float
) -> None:
    asked: list[Perturbation | None] = []
    start = Trials.worker

    def worker(self: Trials, plan: Plan, **how: Any) -> Worker:
        asked.append(how["perturbation"])
        return start(self, plan, **how)

    monkeypatch.setattr(Trials, "worker", worker)
    with workers_forked(), trials_for(tmp_path, TRAINING, *TRAININGS["adam"]) as trials:
        more = amplified.more_baselines(trials, draws, precision, 1, range(BASELINES), 20, 0)
    noises = [noise for noise in asked if noise is not None]
    assert {noise.relative for noise in noises} == {times * ROUNDING[precision]}
    assert len({noise.seed for noise in noises}) == len(more.grown) == BASELINES
    assert (more.steps, [len(one.trace) for one in more.grown]) == (20, [20] * BASELINES)
    assert len(more.noisier) == (BASELINES * len(checked_steps(20)) + BASELINES if times > 1 else 0)
    drifts = {
        departure(check.since["parameters"]).residual for one in more.grown for check in one.checks[-1:]
    }
    assert len(drifts) == BASELINES
    assert min(drifts) > 0.0
