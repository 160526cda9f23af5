"""The judgement on evaluations that a plan lowers: what models return, and what scripts print of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from hasten.bench.guard.checked_steps import Check, Watched
from hasten.bench.guard.evaluations import judge_evaluations
from hasten.bench.guard.guard import guard
from hasten.bench.guard.judging import verdict_on
from hasten.inside.techniques.support.lowered_evaluations import MOST
from hasten.records.plan import Plan
from hasten.records.verdict import GuardVerdict
from hasten.report.guard import reasons
from tests.bench.real_workers import trials_for
from tests.inside.distributed.forked import workers_forked

from .test_guard import training
from .test_single_steps import checks

TOLD = "epoch 1: loss 0.5000, accuracy 80.00 (1.25 s), 31"


def watched(printed: str = TOLD, evaluation: float | None = None) -> Watched:
    """A training that evaluates before its 30th step; ``evaluation`` of the batches of checked steps."""
    trace = training()
    trace[29] = replace(trace[29], printed=(printed,))
    return Watched(trace, [replace(check, evaluation=evaluation) for check in checks()])


def verdict(candidate: str = TOLD, evaluation: float | None = 0.004, perturbed: str = TOLD) -> GuardVerdict:
    return verdict_on(watched(), watched(perturbed), watched(candidate, evaluation), False, "float32")


def test_close_evaluations_pass_and_are_told() -> None:
    found = verdict(TOLD.replace("0.5000", "0.5050"))
    assert found.passed, reasons(found)
    compared = found.numerics.compared
    assert compared["evaluation"].residual == 0.004
    assert compared["printed"].residual == pytest.approx(0.01, rel=0.02)
    assert compared["printed"].step == 30


@pytest.mark.parametrize(("share", "passed"), [(0.99, True), (1.01, False)])
def test_what_is_returned_may_depart_by_so_much(share: float, passed: bool) -> None:
    found = verdict(evaluation=share * MOST)
    assert found.passed is passed
    if not passed:
        (reason,) = reasons(found)
        assert reason.startswith("what the model returns in an evaluation differs from the baseline's by 3.1")


def test_printed_numbers_that_depart_farther_fail() -> None:
    found = verdict(TOLD.replace("80.00", "76.00"))
    assert not found.passed
    (reason,) = reasons(found)
    assert reason.startswith("what the script prints about an evaluation differs from the baseline's by 5")
    assert "in step 30" in reason


@pytest.mark.parametrize(("departing", "passed"), [(1, True), (4, False)])
def test_samples_that_are_right_by_chance_in_one_evaluation_are_no_departure(
    departing: int, passed: bool
) -> None:
    def evaluating(accuracies: list[float]) -> Watched:
        trace = training()
        for number, accuracy in enumerate(accuracies):
            step = 10 * number + 9
            trace[step] = replace(trace[step], printed=(f"epoch {number}: accuracy {accuracy:.4f}",))
        return Watched(trace, [replace(check, evaluation=0.004) for check in checks()])

    plain, other = [0.1] * 4, [0.105] * departing + [0.1] * (4 - departing)
    found = verdict_on(evaluating(plain), evaluating(plain), evaluating(other), False, "float32")
    assert found.passed is passed
    assert found.numerics.compared["printed"].step == 10 * departing


def test_the_farthest_step_counts() -> None:
    one = watched(evaluation=0.01)
    one.checks[1] = replace(one.checks[1], evaluation=0.02)
    found = judge_evaluations(watched(), watched(), one)["evaluation"]
    assert (found.step, found.residual) == (one.checks[1].step, 0.02)


@pytest.mark.parametrize(
    "candidate",
    [TOLD.replace("1.25 s", "9.75 s"), TOLD + ", a best result", "step 1"],
    ids=["a time", "other words", "another line"],
)
def test_times_and_other_words_count_for_nothing(candidate: str) -> None:
    assert verdict(candidate).passed


def test_numbers_that_a_perturbed_baseline_prints_otherwise_count_for_nothing() -> None:
    other = TOLD.replace("31", "47")
    assert not verdict(other).passed
    assert verdict(other, perturbed=TOLD.replace("31", "32")).passed


def test_a_plan_that_lowers_no_evaluation_is_not_asked_for_what_it_prints() -> None:
    found = verdict(TOLD.replace("80.00", "76.00"), evaluation=None)
    assert found.passed
    assert not {"evaluation", "printed"} & set(found.numerics.compared)


def test_evaluations_are_judged_also_where_no_gradients_were_left() -> None:
    one = Watched(training(), [Check(step, {}, evaluation=2 * MOST) for step in (1, 2)])
    bare = Watched(training(), [Check(step, {}) for step in (1, 2)])
    found = verdict_on(bare, bare, one, False, "float32")
    assert found.accuracy == "not held"


# ---- real trainings
EVALUATING = """
    from ground import *

    torch.manual_seed(0)
    model = Cnn()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    held_out = [Pictures(40)[number] for number in range(40)]
    inputs = torch.stack([picture for picture, _ in held_out])
    classes = torch.tensor([label for _, label in held_out])
    for step, (pictures, labels) in enumerate(batches(Pictures(240)), 1):
        train_step(model, optimizer, pictures, labels)
        if step % 9 == 0:
            model.eval()
            with torch.no_grad():
                loss = torch.nn.functional.cross_entropy(model(inputs), classes)
            model.train()
            print(f"step {step}: loss {loss.item():.5f}")
"""
LEARNING_FROM_IT = """
    from ground import *

    torch.manual_seed(0)
    model = Cnn()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for pictures, _ in batches(Pictures(240)):
        model.eval()
        with torch.no_grad():
            wanted = 1.01 * model(pictures)
        model.train()
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(pictures), wanted).backward()
        optimizer.step()
"""
PLAN = Plan({"evaluation_bf16": {}})


def guarded(folder: Path, script: str) -> GuardVerdict:
    with workers_forked(), trials_for(folder, script) as trials:
        return guard(trials, PLAN, draws=False, precision="float32", seed=5, steps=30)


def test_evaluations_of_a_real_training_are_judged_and_it_trains_the_same(tmp_path: Path) -> None:
    found = guarded(tmp_path, EVALUATING)
    assert found.passed, reasons(found)
    assert found.loss_curve.deviation == 0.0
    assert 0.0 < (found.numerics.compared["evaluation"].residual or 0.0) <= MOST
    assert found.numerics.compared["printed"].step in (10, 19, 28)


def test_a_training_that_learns_from_what_its_model_says_in_eval_mode_is_another(tmp_path: Path) -> None:
    """As with labels that a model makes for itself: these passes look like an evaluation's."""
    assert not guarded(tmp_path, LEARNING_FROM_IT).passed
