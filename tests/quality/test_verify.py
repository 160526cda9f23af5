"""The order of whole trainings and the judgement on them, with courses made up on paper."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from hasten.bench.trials import Trials
from hasten.bench.workers.ending import PlanRefused
from hasten.errors import Refusal, ScriptError, UsageError
from hasten.quality import verify as verify_module
from hasten.quality.judging import judge
from hasten.quality.metric import Wanted
from hasten.quality.verify import VerifyRequest, verify
from hasten.records.codec import to_json
from hasten.records.plan import Plan
from hasten.records.quality import Metric, Point, QualityVerdict, Tolerance, WholeRun
from hasten.scripts.workspace import Script

ACCURACY = Metric("accuracy")
LOSS = Metric("loss", lower_is_better=True)
POINT_FIVE_PERCENT = Tolerance(0.005, True)
SPREAD = (0.80, 0.81, 0.79)  # of the baseline over seeds


def run(arm: str, seed: int, values: Sequence[float], name: str = "accuracy", **other: Any) -> WholeRun:
    """One value an epoch; an epoch is 100 steps, and takes 10 seconds, or 5 under the plan."""
    epoch_seconds = 5.0 if arm == "plan" else 10.0
    course = tuple(
        Point(value, epoch_seconds * number, 100 * number) for number, value in enumerate(values, 1)
    )
    seconds, steps = epoch_seconds * len(values), 100 * len(values)
    told = WholeRun(arm, seed, seconds, steps, {name: course}, losses=(values[-1] + seed / 7,))
    return replace(told, **other)


def runs(baseline: Sequence[float], plan: Sequence[float], name: str = "accuracy") -> list[WholeRun]:
    """Two epochs each, the first of which comes half the way; only the final values are named."""
    return [
        run(arm, seed, (final / 2 if name == "accuracy" else final * 2, final), name)
        for arm, finals in (("baseline", baseline), ("plan", plan))
        for seed, final in enumerate(finals)
    ]


def verdict_on(
    baseline: Sequence[float], plan: Sequence[float], tolerance: Tolerance = POINT_FIVE_PERCENT
) -> QualityVerdict:
    return judge(ACCURACY, runs(baseline, plan), tolerance)


def shifted(by: Sequence[float]) -> list[float]:
    return [value + shift for value, shift in zip(SPREAD, by, strict=True)]


# ---- the verdict
def test_small_differences_are_held() -> None:
    verdict = verdict_on(SPREAD, shifted([0.001, -0.001, 0.0]))
    assert verdict.outcome == "held"
    assert verdict.difference is not None
    assert verdict.difference.value == pytest.approx(0.0, abs=1e-12)
    assert verdict.difference.low == pytest.approx(-4.3027 * 0.001 / math.sqrt(3), rel=1e-4)
    assert verdict.allowed == pytest.approx(0.005 * 0.80)


def test_what_is_better_is_held() -> None:
    assert verdict_on(SPREAD, shifted([0.05, 0.06, 0.055])).outcome == "held"


def test_what_is_surely_worse_is_lost() -> None:
    verdict = verdict_on(SPREAD, shifted([-0.05, -0.051, -0.049]))
    assert verdict.outcome == "lost"
    assert verdict.difference is not None
    assert verdict.difference.value == pytest.approx(-0.05)
    assert verdict.seeds_enough is None


def test_too_wide_an_interval_cannot_tell_and_says_how_many_seeds_would() -> None:
    verdict = verdict_on(SPREAD, shifted([0.01, -0.01, 0.003]))
    assert verdict.outcome == "cannot tell"
    assert verdict.seeds_enough is not None
    assert 10 < verdict.seeds_enough < 60


def test_what_is_worse_but_perhaps_within_the_tolerance_cannot_be_told() -> None:
    """The interval excludes zero, and not the tolerance of 0.004."""
    verdict = verdict_on(SPREAD, shifted([-0.004, -0.0045, -0.0038]))
    assert verdict.outcome == "cannot tell"
    assert verdict.difference is not None
    assert verdict.difference.high < 0


@pytest.mark.attack("truth")
def test_a_plan_of_which_nothing_had_effect_is_not_called_held() -> None:
    made = runs((0.8, 0.8), (0.8, 0.8))
    assert judge(ACCURACY, made, POINT_FIVE_PERCENT).outcome == "held"
    idle = [replace(one, worked=()) for one in made]
    verdict = judge(ACCURACY, idle, POINT_FIVE_PERCENT)
    assert verdict.outcome == "cannot tell"
    assert verdict.reason.startswith("no technique of the plan had an effect")
    partly = [*idle[:-1], replace(idle[-1], worked=("bf16",))]
    assert judge(ACCURACY, partly, POINT_FIVE_PERCENT).outcome == "held"


def test_pairs_are_what_is_compared() -> None:
    """Seeds that differ much do not hide a loss that all of them share."""
    baseline = (0.5, 0.9, 0.7)
    assert verdict_on(baseline, [value - 0.01 for value in baseline]).outcome == "lost"


@pytest.mark.parametrize(
    ("tolerance", "outcome"),
    [(Tolerance(0.02, False), "held"), (Tolerance(0.0, False), "lost"), (Tolerance(0.02, True), "held")],
)
def test_the_tolerance_decides(tolerance: Tolerance, outcome: str) -> None:
    assert verdict_on(SPREAD, shifted([-0.010, -0.011, -0.009]), tolerance).outcome == outcome


@pytest.mark.parametrize(("shift", "outcome"), [(0.1, "lost"), (-0.1, "held")])
def test_of_a_loss_lower_is_better(shift: float, outcome: str) -> None:
    plan = shifted([shift, shift * 1.01, shift * 0.99])
    assert judge(LOSS, runs(SPREAD, plan, "loss"), POINT_FIVE_PERCENT).outcome == outcome


# ---- seeds without an effect
def with_equal_runs(plan: Sequence[float], losses: tuple[float, ...] = (0.3,)) -> list[WholeRun]:
    made = runs([0.8] * len(plan), plan)
    return [replace(each, losses=(0.3,) if each.arm == "baseline" else losses) for each in made]


def test_a_script_that_sets_its_own_seed_is_found_out() -> None:
    verdict = judge(ACCURACY, with_equal_runs([0.801] * 3), POINT_FIVE_PERCENT)
    assert verdict.outcome == "cannot tell"
    assert verdict.reason.startswith("the script sets its own seed: 3 equal runs count as one")
    assert verdict.difference is None


def test_equal_to_the_last_loss_is_the_same_training() -> None:
    verdict = judge(ACCURACY, with_equal_runs([0.8] * 3), POINT_FIVE_PERCENT)
    assert (verdict.outcome, verdict.difference) == ("held", None)
    assert verdict.reason.startswith("the same training")


def test_an_equal_metric_by_another_training_is_no_proof() -> None:
    assert judge(ACCURACY, with_equal_runs([0.8] * 3, (0.31,)), POINT_FIVE_PERCENT).outcome == "cannot tell"


def test_without_losses_equal_values_are_no_proof() -> None:
    made = [replace(each, losses=()) for each in with_equal_runs([0.8] * 3)]
    assert judge(ACCURACY, made, POINT_FIVE_PERCENT).outcome == "cannot tell"


def test_a_metric_that_tells_nothing_apart_is_named() -> None:
    """As where the pattern catches the number of epochs."""
    verdict = verdict_on([5.0] * 3, [5.0, 5.0, 5.1])
    assert verdict.outcome == "cannot tell"
    assert verdict.reason.startswith("every baseline run ended with exactly 5, though not by the same")


# ---- failures
def test_one_failed_run_fails_it_all() -> None:
    made = runs(SPREAD, SPREAD)
    made[4] = replace(made[4], courses={}, failure="the script raised ValueError: boom")
    verdict = judge(ACCURACY, made, POINT_FIVE_PERCENT)
    assert (verdict.outcome, verdict.reason) == ("failed", "plan, seed 1: the script raised ValueError: boom")


def test_the_failure_may_be_the_first_run() -> None:
    made = [WholeRun("baseline", 0, 1.0, failure="no training step was seen")]
    assert judge(ACCURACY, made, POINT_FIVE_PERCENT).outcome == "failed"


# ---- times
def test_the_whole_runs_are_compared() -> None:
    wall = verdict_on(SPREAD, shifted([0.001, -0.001, 0.0])).wall
    assert wall is not None
    assert (wall.value, wall.low, wall.high, wall.count) == pytest.approx((0.5, 0.5, 0.5, 3))


def test_the_time_to_the_baselines_quality() -> None:
    """Its median is 0.80, to which the baseline with seed 2 never comes."""
    reached = verdict_on(SPREAD, (0.81, 0.82, 0.80)).reached
    assert reached is not None
    assert reached.quality == 0.80
    assert reached.baseline == (Point(0.80, 20.0, 200), Point(0.81, 20.0, 200), None)
    assert [point.seconds for point in reached.plan if point] == [10.0, 10.0, 10.0]
    assert reached.seconds is not None
    assert (reached.seconds.value, reached.seconds.count) == pytest.approx((0.5, 2))
    assert reached.steps is not None
    assert reached.steps.value == pytest.approx(1.0)


def test_a_quality_that_the_plan_never_reaches() -> None:
    reached = verdict_on(SPREAD, shifted([-0.05, -0.051, -0.049])).reached
    assert reached is not None
    assert reached.plan == (None, None, None)
    assert (reached.seconds, reached.steps) == (None, None)


def test_a_loss_is_reached_from_above() -> None:
    reached = judge(LOSS, runs((0.3, 0.4), (0.29, 0.39), "loss"), POINT_FIVE_PERCENT).reached
    assert reached is not None
    assert reached.quality == pytest.approx(0.35)
    assert [point.value if point else None for point in (*reached.baseline, *reached.plan)] == [
        0.3, None, 0.29, None,
    ]  # fmt: skip


def test_the_first_time_counts() -> None:
    """A course that falls back later has been there."""
    made = [
        run(arm, seed, (0.5, 0.9 + seed / 100, 0.8 + seed / 100))
        for arm in ("baseline", "plan")
        for seed in (0, 1)
    ]
    reached = judge(ACCURACY, made, POINT_FIVE_PERCENT).reached
    assert reached is not None
    assert {point.step for point in (*reached.baseline, *reached.plan) if point} == {200}


# ---- the runs
@dataclass
class Paper:
    """Trainings on paper: each under its plan, seed and arguments, in the order they were asked for."""

    order: list[tuple[str, int, tuple[str, ...]]] = field(default_factory=list)
    said: list[str] = field(default_factory=list)
    failing: tuple[str, int] | None = None
    name: str = "accuracy"

    def train(self, trials: Trials, plan: Plan, seed: int, *, argv: tuple[str, ...], **_: object) -> WholeRun:
        arm = "plan" if plan else "baseline"
        self.order.append((arm, seed, argv))
        if (arm, seed) == self.failing:
            return WholeRun(arm, seed, 1.0, failure="boom")
        return run(arm, seed, (0.5, 0.8 + seed / 100), self.name, remarks=(f"of the {arm}",))

    def verified(self, **changes: Any) -> QualityVerdict:
        request = VerifyRequest(
            script=Script(Path("train.py"), ("--seed={seed}",)),
            plan=Plan({"bf16": {}}),
            environment={},
            wanted=Wanted(),
            lower_is_better=False,
            seeds=3,
            tolerance=POINT_FIVE_PERCENT,
            allow_writes=False,
        )
        return verify(replace(request, **changes), self.said.append)


@pytest.fixture
def paper(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Paper:
    made = Paper()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(verify_module, "train_whole", made.train)
    monkeypatch.setattr(verify_module, "_prepare", lambda trials: None)
    monkeypatch.setattr(verify_module, "idle_vitals", lambda: ())
    monkeypatch.setattr(verify_module, "before_tuning", lambda *_: [])
    return made


def test_the_arms_take_turns_from_the_same_seeds(paper: Paper) -> None:
    verdict = paper.verified()
    assert paper.order == [
        ("baseline", 0, ("train.py", "--seed=0")),
        ("plan", 0, ("train.py", "--seed=0")),
        ("plan", 1, ("train.py", "--seed=1")),
        ("baseline", 1, ("train.py", "--seed=1")),
        ("baseline", 2, ("train.py", "--seed=2")),
        ("plan", 2, ("train.py", "--seed=2")),
    ]
    assert verdict.outcome == "held"
    assert verdict.remarks == ("of the baseline", "of the plan")


def test_all_runs_are_written_down_as_they_are_done(paper: Paper, tmp_path: Path) -> None:
    verdict = paper.verified()
    written = json.loads((tmp_path / verdict.folder / "trial.json").read_text())
    assert written == json.loads(json.dumps(to_json(verdict.runs)))


def test_it_says_what_runs(paper: Paper) -> None:
    paper.verified(seeds=2)
    assert paper.said[1:] == [
        "[1 of 4] baseline, seed 0", "  accuracy 0.8 at the end, 200 steps, 20.0 s",
        "[2 of 4] plan, seed 0", "  accuracy 0.8 at the end, 200 steps, 10.0 s",
        "[3 of 4, about 30 s left] plan, seed 1", "  accuracy 0.81 at the end, 200 steps, 10.0 s",
        "[4 of 4, about 13 s left] baseline, seed 1", "  accuracy 0.81 at the end, 200 steps, 20.0 s",
    ]  # fmt: skip


def test_the_first_failure_ends_it(paper: Paper) -> None:
    paper.failing = ("plan", 1)
    verdict = paper.verified()
    assert (verdict.outcome, verdict.reason) == ("failed", "plan, seed 1: boom")
    assert len(paper.order) == 3


def test_a_plan_that_the_rehearsal_refuses_is_not_trained(
    paper: Paper, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(trials: Trials, plan: Plan) -> None:
        raise PlanRefused("processes", "two ranks made other losses")

    monkeypatch.setattr(Trials, "rehearse", refused)
    with pytest.raises(Refusal, match=r"two ranks made other losses\. Take processes out of the plan"):
        paper.verified(plan=Plan({"processes": {"count": 2}}))
    assert paper.order == []


def test_a_baseline_that_tells_no_metric_ends_it_at_once(paper: Paper) -> None:
    with pytest.raises(UsageError, match="reported no metric 'f1'; it reported accuracy"):
        paper.verified(wanted=Wanted("f1"))
    assert len(paper.order) == 1


@pytest.mark.parametrize(
    ("changes", "failure"),
    [
        ({"courses": {}}, "it did not report accuracy, although the first baseline run did"),
        ({"courses": {"accuracy": (Point(math.nan, 1.0, 1),)}}, "its accuracy is not a number at the end"),
    ],
)
def test_a_run_without_quality_has_failed(
    paper: Paper, monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any], failure: str
) -> None:
    def train(trials: Trials, plan: Plan, seed: int, **others: Any) -> WholeRun:
        trained = paper.train(trials, plan, seed, **others)
        return replace(trained, **changes) if plan else trained

    monkeypatch.setattr(verify_module, "train_whole", train)
    verdict = paper.verified()
    assert (verdict.outcome, verdict.reason) == ("failed", f"plan, seed 0: {failure}")


# ---- a script that is edited meanwhile
@pytest.mark.attack("truth")
@pytest.mark.parametrize("last", [("baseline", 0), ("plan", 1), ("plan", 2)])
def test_a_script_edited_meanwhile_is_not_judged(
    paper: Paper, monkeypatch: pytest.MonkeyPatch, last: tuple[str, int]
) -> None:
    Path("train.py").write_text("pass")

    def train(trials: Trials, plan: Plan, seed: int, **others: Any) -> WholeRun:
        trained = paper.train(trials, plan, seed, **others)
        if (trained.arm, seed) == last:
            Path("train.py").write_text("print('another training')")
        return trained

    monkeypatch.setattr(verify_module, "train_whole", train)
    with pytest.raises(Refusal, match=r"^train\.py changed while it was verified: nothing is claimed"):
        paper.verified()


@pytest.mark.attack("truth")
def test_a_run_that_fails_because_of_the_edit_is_told_as_edited(
    paper: Paper, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("train.py").write_text("pass")

    def prepare(trials: Trials) -> None:
        Path("train.py").write_text("def")
        raise ScriptError("train.py raised an error of its own: SyntaxError")

    monkeypatch.setattr(verify_module, "_prepare", prepare)
    with pytest.raises(Refusal, match=r"^train\.py changed while it was verified"):
        paper.verified()
