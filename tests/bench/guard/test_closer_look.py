"""The guard's closer look, in real trainings: more perturbed baselines, one in float64, and each technique
alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hasten.bench.guard import guard as guarding
from hasten.bench.guard.amplified import BASELINES, ROUNDS
from hasten.bench.guard.checked_steps import watch
from hasten.bench.guard.departures import departure, gradient_departures
from hasten.bench.guard.guard import closer_look, each_alone, guard
from hasten.bench.guard.judging import verdict_on
from hasten.bench.trials import Trials
from hasten.bench.workers.ending import BudgetOver
from hasten.records.comparison import LossCurve
from hasten.records.plan import BASELINE, Plan
from hasten.records.verdict import GuardVerdict
from hasten.report.guard import reasons
from tests.bench import faulty_techniques
from tests.bench.faulty_techniques import SLIGHT, TRAINING, TRAININGS
from tests.bench.known_techniques import known_to_workers
from tests.bench.real_workers import trials_for
from tests.inside.distributed.forked import workers_forked

STEPS = 30
FAULTS = [Plan({"gradients_scaled": {}}), Plan({SLIGHT: {}})]
HARMLESS = Plan({"channels_last": {}})
IN_FLOAT32_ALONE = TRAINING.replace(
    "loss = factor", "assert pictures.element_size() == 4\n        loss = factor"
)


@pytest.fixture(autouse=True)
def _with_faults() -> Iterator[None]:
    known = known_to_workers(faulty_techniques.__file__, faulty_techniques.FAULTS)
    with known, workers_forked():
        yield


@pytest.fixture
def trials(tmp_path: Path) -> Iterator[Trials]:
    with trials_for(tmp_path, TRAINING, *TRAININGS["adam"]) as made:
        yield made


def alarmed(*_: object) -> GuardVerdict:
    return GuardVerdict("not held", STEPS, loss_curve=LossCurve(False, 0.1, 0.1, 0.01))


def test_a_baseline_in_float64_tells_how_far_each_tensor_is_rounded(trials: Trials) -> None:
    """From the same weights, batches and masks of dropout."""
    with (
        trials.worker(BASELINE, seed=1, traced=True) as plain,
        trials.worker(BASELINE, seed=1, traced=True, doubled=True) as doubled,
    ):
        plain.wait_started()
        doubled.wait_started()
        _, (exact,) = watch(plain, [doubled], STEPS, trials.aside, trials.limit)
    assert exact.failed == ""
    assert [check.step for check in exact.checks] == [1, 2, 10, 21, 30]
    assert all(1e-9 < departed.residual < 1e-4 for departed in gradient_departures(exact.checks))
    before_a_norm = [departure(check.gradient["0.bias"]).residual for check in exact.checks]
    assert before_a_norm == pytest.approx([1.0] * 5, abs=1e-3)  # it is nothing but rounding


def test_a_false_alarm_does_not_survive_it(trials: Trials, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: Iterator[Callable[..., GuardVerdict]] = iter([alarmed, verdict_on])
    monkeypatch.setattr(guarding, "verdict_on", lambda *args: next(calls)(*args))
    found = guard(trials, HARMLESS, False, "float32", seed=1, steps=STEPS)
    assert found.passed, reasons(found)
    assert found.numerics.worst_tensor is not None
    assert found.numerics.worst_tensor.tensor != "0.bias"


@pytest.mark.thorough
def test_what_only_grew_is_held_against_four_more(trials: Trials, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[int] = []

    def at_last(*args: Any) -> GuardVerdict:
        *_, others, _ = args
        given.append(len(others))
        return alarmed() if len(given) == 1 else verdict_on(*args)

    monkeypatch.setattr(guarding, "verdict_on", at_last)
    (found,) = closer_look(trials, [HARMLESS], False, "float32", 1, STEPS)
    assert given == [2, 6]
    assert found.passed, reasons(found)


@pytest.mark.attack("truth")
def test_a_closer_look_for_which_time_ends_says_so(trials: Trials, monkeypatch: pytest.MonkeyPatch) -> None:
    def over(*_: object) -> None:
        raise BudgetOver("the budget ended")

    monkeypatch.setattr(guarding, "verdict_on", alarmed)
    monkeypatch.setattr(guarding, "closer_look", over)
    found = guard(trials, HARMLESS, False, "float32", seed=1, steps=STEPS)
    assert (found.accuracy, found.cut_short) == ("not held", True)
    assert reasons(found)[-1].endswith("try a larger --budget")


@pytest.mark.parametrize("plan", FAULTS, ids=lambda plan: plan.label)
@pytest.mark.parametrize("shown", [1.0, pytest.param(1e4, marks=pytest.mark.thorough)])
def test_a_fault_does(trials: Trials, plan: Plan, shown: float) -> None:
    """However much noise the losses are allowed."""
    (found,) = closer_look(trials, [plan], False, "float32", 1, STEPS, shown)
    assert found.accuracy == "not held"
    assert reasons(found)[-1].startswith("the gradient of ")


@pytest.mark.thorough
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_so_does_one_that_only_grows(tmp_path: Path, precision: str) -> None:
    """Momentum that was lost between two steps that are checked; all baselines that there are are asked."""
    with trials_for(tmp_path, TRAINING, *TRAININGS["sgd"]) as trials:
        (found,) = closer_look(trials, [Plan({"optimizer_reset": {}})], False, precision, 1, STEPS)
        assert trials.folder is not None
        trained = len(list(trials.folder.glob("worker-*.stdout")))
    assert (found.accuracy, found.cut_short) == ("not held", False)
    assert any("what the optimizer keeps" in one or "the change of the" in one for one in reasons(found))
    assert trained == 3 + 1 + 1 + ROUNDS * (1 + BASELINES)


def test_a_script_that_needs_float32_is_looked_at_without(tmp_path: Path) -> None:
    with trials_for(tmp_path, IN_FLOAT32_ALONE, *TRAININGS["adam"]) as trials:
        harmless, fault = closer_look(trials, [HARMLESS, FAULTS[0]], False, "float32", 1, STEPS)
    assert (harmless.passed, fault.accuracy) == (True, "not held")


def test_where_it_fails_the_first_verdict_stands(trials: Trials, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guarding, "verdict_on", alarmed)
    refused = replace(alarmed(), accuracy="not checked")
    monkeypatch.setattr(guarding, "closer_look", lambda *_: [refused])
    assert guard(trials, HARMLESS, False, "float32", seed=1, steps=STEPS) == alarmed()


def test_each_technique_alone_names_the_culprit(trials: Trials) -> None:
    plan = Plan({"dataset_in_ram": {}, "gradients_scaled": {}, "fused_optimizer": {}, "channels_last": {}})
    found = each_alone(trials, plan, False, "float32", 1, STEPS)
    assert {name: verdict.passed for name, verdict in found.items()} == {
        name: name != "gradients_scaled" for name in plan.techniques
    }
    assert found["dataset_in_ram"].loss_curve.deviation == 0.0
    assert (found["channels_last"].loss_curve.deviation or 0.0) > 0.0


@pytest.mark.thorough
def test_what_cannot_be_checked_alone_is_left_out(trials: Trials) -> None:
    plan = Plan({"batched_fetch": {}, "gradients_scaled": {}})
    found = each_alone(trials, plan, False, "float32", 1, STEPS)
    assert found.keys() >= {"gradients_scaled"}
    assert not any(verdict.unchecked for verdict in found.values())
