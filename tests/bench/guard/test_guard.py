"""The guard's judgement on made-up traces, and its conduct when a training fails under its eyes."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from hasten.bench.guard.checked_steps import LEAST_STEPS, Watched
from hasten.bench.guard.guard import guard
from hasten.bench.guard.judging import FLOOR, apart_before, judge, steps_to_leave
from hasten.bench.guard.judging import verdict_on as watched_verdict
from hasten.bench.guard.single_steps import ROUNDING
from hasten.bench.guard.unchecked import unless_idle
from hasten.bench.workers.ending import (
    Killed,
    PlanRefused,
    ScriptEnded,
    ScriptOver,
    Silence,
)
from hasten.errors import WorkerError
from hasten.records.codec import to_json
from hasten.records.plan import Plan
from hasten.records.trace import BatchTrace, Mode, StepTrace
from hasten.records.trial import Proof
from hasten.records.verdict import Difference, GuardVerdict
from hasten.report.guard import reasons
from tests.bench.guard.test_single_steps import checks
from tests.bench.paper_workers import PaperTrials, PaperWorker

Trace = list[StepTrace]
FLOAT32 = 2.0**-20


def training(steps: int = 60, noise: float = 0.0) -> Trace:
    """A training whose loss falls from 2 to 1, with rounding ``noise`` that alternates."""
    return [
        StepTrace(
            optimizer=0,
            batches=(f"batch {n}",),
            samples=(BatchTrace(n // 20, 20, tuple(f"sample {n % 20 * 4 + k}" for k in range(4))),),
            modes=(Mode(True),),
            rates=((0.1 * 0.99**n,),),
            streams=f"stream {n}",
            losses=((1 + math.exp(-n / 20)) * (1 + (-1) ** n * noise),),
        )
        for n in range(steps)
    ]


def verdict_on(candidate: Trace, draws: bool = False, noise: float = FLOAT32) -> GuardVerdict:
    return judge(training(), training(noise=noise), candidate, draws, "float32")


def changed(at: int, **values: Any) -> Trace:
    """The usual trace, different in step ``at`` (counted from 1)."""
    other = training()
    other[at - 1] = replace(other[at - 1], **values)
    return other


def with_losses(factor: Callable[[int], float]) -> Trace:
    return [
        replace(step, losses=tuple(loss * factor(n) for loss in step.losses))
        for n, step in enumerate(training(), 1)
    ]


def test_the_same_training_passes() -> None:
    verdict = verdict_on(training())
    assert verdict.passed
    assert reasons(verdict) == []
    assert verdict.steps == 60
    assert verdict.invariants.differing == ()
    assert verdict.loss_curve.held
    assert verdict.loss_curve.deviation == 0.0


def test_rounding_as_large_as_the_perturbed_baselines_passes() -> None:
    assert verdict_on(training(noise=-FLOAT32)).passed


DIFFERENCES: dict[str, tuple[str, Any]] = {
    "content": ("batches", ("another batch",)),
    "number": ("batches", ("batch 6", "batch 7")),
    "mode": ("modes", (Mode(False),)),
    "rate": ("rates", ((0.05,),)),
    "optimizer": ("optimizer", 1),
    "random numbers": ("streams", "elsewhere"),
}
WORDS = {
    "batches": "batches came from the loader with different content or in a different order",
    "modes": "train/eval flags differ",
    "rates": "learning rates differ",
    "optimizer": "optimizers stepped in a different order",
    "streams": "different random numbers were drawn",
}


@pytest.mark.parametrize("difference", DIFFERENCES)
def test_what_must_be_equal_fails_with_the_first_step_at_which_it_is_not(difference: str) -> None:
    key, value = DIFFERENCES[difference]
    candidate = changed(7, **{key: value})
    candidate[30] = replace(candidate[30], **{key: value})
    verdict = verdict_on(candidate)
    assert verdict.accuracy == "not held"
    assert verdict.invariants.differing == (Difference(key, 7),)
    assert reasons(verdict) == [f"{WORDS[key]} (from step 7)"]
    assert [what for what in WORDS if verdict.differs_in(what)] == [key]


def test_batches_in_another_order_fail_unless_the_plan_may_draw() -> None:
    candidate = training()
    first, second = candidate[3:5]
    candidate[3] = replace(first, batches=second.batches)
    candidate[4] = replace(second, batches=first.batches)
    assert not verdict_on(candidate).passed
    assert verdict_on(candidate, draws=True).passed


def with_sample(at: int, sample: str, made: Trace | None = None) -> Trace:
    """Another first sample in step ``at``, counted from 1."""
    other = made or training()
    step = other[at - 1]
    (batch,) = step.samples
    samples = (replace(batch, digests=(sample, *batch.digests[1:])),)
    other[at - 1] = replace(step, batches=(f"batch with {sample}",), samples=samples)
    return other


def test_samples_in_another_order_pass_where_the_plan_may_draw() -> None:
    candidate = training()
    candidate[20:40] = [
        replace(step, batches=other.batches, samples=other.samples)
        for step, other in zip(candidate[20:40], reversed(training()[20:40]), strict=True)
    ]
    assert verdict_on(candidate, draws=True).passed


@pytest.mark.parametrize("sample", ["another", "sample 8"], ids=["not of the data", "drawn twice"])
def test_other_samples_in_an_epoch_fail_even_where_the_plan_may_draw(sample: str) -> None:
    verdict = verdict_on(with_sample(4, sample), draws=True)
    assert reasons(verdict) == ["an epoch had different samples"]


def test_an_epoch_that_did_not_come_to_its_end_may_have_had_any() -> None:
    candidate = with_sample(47, "sample 8")[:55]
    assert judge(training(55), training(55, FLOAT32), candidate, True, "float32").passed


def test_samples_that_are_random_themselves_cannot_be_compared() -> None:
    """As with random augmentation: the baseline does not repeat them either when it draws anew."""
    perturbed = with_sample(3, "augmented otherwise", training(noise=FLOAT32))
    candidate = with_sample(3, "augmented yet otherwise")
    assert judge(training(), perturbed, candidate, True, "float32").passed
    assert not judge(training(), perturbed, candidate, False, "float32").passed


def test_other_random_numbers_pass_where_the_plan_may_draw() -> None:
    assert verdict_on(changed(3, streams="elsewhere"), draws=True).passed


@pytest.mark.parametrize("key", ["modes", "rates", "optimizer"])
def test_what_draws_does_not_excuse_fails_all_the_same(key: str) -> None:
    value = next(value for known, value in DIFFERENCES.values() if known == key)
    assert not verdict_on(changed(3, **{key: value}), draws=True).passed


@pytest.mark.parametrize("losses", [[math.nan], [math.inf], [], [1.0, 1.0]])
def test_losses_that_are_missing_or_no_numbers_fail(losses: list[float]) -> None:
    verdict = verdict_on(changed(5, losses=tuple(losses)))
    assert reasons(verdict) == ["losses are missing, or not numbers"]
    assert verdict.loss_curve.deviation is None


@pytest.mark.parametrize("losses", [[math.nan], [math.inf], []])
def test_a_baseline_that_rounding_alone_ruins_is_no_measure(losses: list[float]) -> None:
    """Otherwise the tolerance would be without end."""
    perturbed = training(noise=FLOAT32)
    perturbed[9] = replace(perturbed[9], losses=tuple(losses))
    verdict = judge(training(), perturbed, with_losses(lambda _: 3.0), False, "float32")
    assert not verdict.passed
    json.dumps(to_json(verdict), allow_nan=False)


def test_a_script_without_losses_cannot_be_judged() -> None:
    silent = [replace(step, losses=()) for step in training()]
    assert not judge(silent, silent, silent, False, "float32").passed


@pytest.mark.parametrize(("steps", "passed"), [(LEAST_STEPS - 1, False), (LEAST_STEPS, True), (0, False)])
def test_too_few_steps_prove_nothing(steps: int, passed: bool) -> None:
    verdict = judge(training(steps), training(steps, FLOAT32), training(steps), False, "float32")
    assert verdict.passed is passed
    if not passed:
        assert f"only {steps} steps could be compared, and {LEAST_STEPS} are needed" in reasons(verdict)


def test_a_training_that_ends_sooner_fails() -> None:
    verdict = verdict_on(training(40))
    assert reasons(verdict) == ["one training took 60 steps, the other 40"]


def test_a_script_that_does_not_repeat_itself_cannot_be_judged() -> None:
    verdict = judge(training(), changed(2, streams="elsewhere"), NOISY, False, "float32")
    (reason,) = reasons(verdict)
    assert "two runs from one seed differ" in reason
    assert "different random numbers were drawn (from step 2)" in reason


@pytest.mark.parametrize("factor", [1.05, 0.95, 1.001])
def test_a_loss_that_is_off_fails_whether_it_is_worse_or_better(factor: float) -> None:
    verdict = verdict_on(with_losses(lambda _: factor))
    (reason,) = reasons(verdict)
    assert "the loss differs from the baseline's" in reason
    assert verdict.loss_curve.bias == pytest.approx(factor - 1, rel=0.1)


def test_a_loss_that_departs_late_fails() -> None:
    assert not verdict_on(with_losses(lambda n: 1.01 if n > 50 else 1.0)).passed


def test_the_tolerance_is_four_times_what_the_perturbation_does() -> None:
    noise = 2.0**-8
    assert verdict_on(with_losses(lambda _: 1 + 3.5 * noise), noise=noise).passed
    assert not verdict_on(with_losses(lambda _: 1 + 4.5 * noise), noise=noise).passed


def test_differences_below_the_floor_pass() -> None:
    assert verdict_on(with_losses(lambda _: 1 + FLOOR / 2), noise=0.0).passed
    assert not verdict_on(with_losses(lambda _: 1 + 5 * FLOOR), noise=0.0).passed


@pytest.mark.parametrize(
    "candidate",
    [
        training(),
        [],
        changed(5, losses=(math.nan,)),
        changed(5, losses=(-math.inf,)),
        with_losses(lambda _: -3.0),
        with_losses(lambda n: 0.0 if n > 5 else 1.0),
    ],
)
def test_a_verdict_is_json(candidate: Trace) -> None:
    text = json.dumps(to_json(verdict_on(candidate)), allow_nan=False)
    assert json.loads(text)["loss_curve"]["precision"] == "float32"


def ended(how: str, detail: str = "") -> ScriptOver:
    return ScriptOver(ScriptEnded(how, detail, (), ()))


ERRORS = {
    "refused": (PlanRefused("malloc", "not this one"), "malloc: not this one"),
    "killed": (Killed("the script's process was killed by SIGKILL (out of memory?)"), "killed by SIGKILL"),
    "silent": (Silence("the script was silent for 120 s"), "silent for 120 s"),
    "ended": (WorkerError("the script's process ended with exit code 3"), "exit code 3"),
    "script": (ended("raised", "Traceback ...\nRuntimeError: cannot view\n"), "RuntimeError: cannot view"),
    "short": (ended("completed"), "the script reached its end"),
}


@pytest.mark.attack("truth")
@pytest.mark.parametrize("why_not", ERRORS)
@pytest.mark.parametrize("number", [0, 1, 2], ids=["baseline", "perturbed", "plan"])
def test_a_training_that_could_not_be_watched_says_nothing_of_accuracy(why_not: str, number: int) -> None:
    """Neither held nor lost, whichever of the three it was."""
    error, said = ERRORS[why_not]

    def fail(worker: PaperWorker) -> None:
        if len(trials.workers) == number + 1:
            raise error

    trials = PaperTrials(on_start=fail)
    verdict = guard(trials.as_trials(), Plan({"malloc": {}}), False, "float32", seed=0)
    assert (verdict.accuracy, verdict.why_not) == ("not checked", why_not)
    assert verdict.refused == ("malloc" if why_not == "refused" else "")
    assert not verdict.passed
    assert said in reasons(verdict)[0]
    assert len(trials.workers) == number + 1, "no other starts for nothing"
    assert all(worker.stopped for worker in trials.workers)
    json.dumps(to_json(verdict), allow_nan=False)


NOISY, DRAWN_ELSE = training(noise=FLOAT32), changed(2, streams="x")
SILENT = changed(9, losses=[])
NAN = changed(9, losses=(math.nan,))


@pytest.mark.attack("truth")
@pytest.mark.parametrize(
    ("trainings", "draws", "accuracy", "why_not"),
    [
        ((training(), DRAWN_ELSE, NOISY), False, "not checked", "unrepeatable"),
        ((training(), DRAWN_ELSE, changed(9, streams="y")), False, "not checked", "unrepeatable"),
        ((training(), changed(2, modes=(Mode(False),)), NOISY), True, "not checked", "unrepeatable"),
        ((training(9), training(9), training(9)), False, "not checked", "short"),
        (([], [], []), False, "not checked", "short"),
        ((training(30), training(9), training(30, noise=FLOAT32)), False, "not checked", "noise"),
        ((training(30), training(9), training(7)), False, "not held", ""),
        ((training(9), training(9), training(7)), False, "not held", ""),
        ((training(), training(), SILENT), False, "not held", ""),
        ((training(), training(), NAN), False, "not held", ""),
        ((training(), NAN, NOISY), False, "not checked", "no losses"),
        ((SILENT, training(), training()), False, "not checked", "no losses"),
        ((training(), training(), with_losses(lambda _: 2.0)), False, "not held", ""),
    ],
)
def test_what_nothing_can_be_said_of_is_not_called_lost(
    trainings: tuple[Trace, Trace, Trace], draws: bool, accuracy: str, why_not: str
) -> None:
    verdict = judge(*trainings, draws, "float32")
    assert (verdict.accuracy, verdict.why_not) == (accuracy, why_not)
    assert reasons(verdict)


@pytest.mark.parametrize("parted", [changed(2, streams="x"), changed(2, losses=[]), training(9)])
def test_a_plan_that_trains_the_same_bit_for_bit_holds_where_noise_parts_the_training(parted: Trace) -> None:
    verdict = judge(training(), parted, training(), False, "float32")
    assert (verdict.accuracy, verdict.steps, verdict.loss_curve.deviation) == ("held", len(training()), 0.0)


@pytest.mark.parametrize(
    ("unsteady", "by_draws"),
    [
        ((), False),
        ((Difference("streams", 2),), True),
        ((Difference("batches", 13), Difference("streams", 2)), True),
        ((Difference("streams", 2), Difference("rates", 3)), False),
        ((Difference("steps", counts=(40, 41)),), False),
    ],
)
def test_what_parts_by_random_draws_alone(unsteady: tuple[Difference, ...], by_draws: bool) -> None:
    assert GuardVerdict("not checked", why_not="unrepeatable", unsteady=unsteady).parts_by_draws == by_draws


@pytest.mark.attack("truth")
@pytest.mark.parametrize(
    ("perturbed", "candidate"), [("no room", ""), ("", "no room"), ("no room", "no room")]
)
def test_single_steps_that_could_not_be_compared_are_no_loss_of_accuracy(
    perturbed: str, candidate: str
) -> None:
    trainings = (
        Watched(training(), []),
        Watched(training(noise=FLOAT32), [], perturbed),
        Watched(training(), [], candidate),
    )
    verdict = watched_verdict(*trainings, False, "float32")
    assert (verdict.accuracy, verdict.why_not) == ("not checked", "state")
    assert reasons(verdict) == ["single steps could not be compared: no room"]
    lost = watched_verdict(
        *trainings[:2], Watched(changed(3, modes=(Mode(False),)), [], candidate), False, "float32"
    )
    assert lost.accuracy == "not held"


@pytest.mark.attack("truth")
@pytest.mark.parametrize("names", [("bf16",), ("malloc", "bf16")])
@pytest.mark.parametrize(
    ("proofs", "why"),
    [
        ([Proof("malloc", True, ""), Proof("bf16", False, "0 forward passes")], "0 forward passes"),
        ([Proof("malloc", True, "")], "it was never put in force"),
    ],
)
def test_what_had_no_effect_is_not_called_held(names: tuple[str, ...], proofs: list[Proof], why: str) -> None:
    plan = Plan({name: {} for name in names})
    assert verdict_on(training()).passed
    judged = unless_idle(verdict_on(training()), plan, proofs)
    assert (judged.accuracy, judged.why_not, judged.refused) == ("not checked", "idle", "bf16")
    assert reasons(judged) == [f"bf16 had no effect in the training that was compared ({why})"]
    lost = verdict_on(with_losses(lambda _: 2.0))
    assert unless_idle(lost, plan, proofs) == lost


def test_what_acts_outside_of_steps_need_not_have_come_by() -> None:
    plan = Plan({"evaluation_in_ram": {}})
    assert unless_idle(verdict_on(training()), plan, [Proof("evaluation_in_ram", False, "")]).passed


@pytest.mark.attack("truth")
def test_a_loss_that_never_changes_tells_nothing_alone() -> None:
    """As where a script calls backward on its loss divided by its value."""
    constant = [replace(step, losses=(1.0,)) for step in training()]
    one, stepped = Watched(constant, []), Watched(constant, checks())
    judged = watched_verdict(one, one, one, False, "float32")
    assert (judged.accuracy, judged.why_not) == ("not checked", "no losses")
    assert reasons(judged) == [
        "the loss is the same number in every step, and no gradients could be compared"
    ]
    assert watched_verdict(stepped, stepped, stepped, False, "float32").passed


@pytest.mark.attack("truth")
def test_a_training_that_noise_changes_beyond_recognition_tells_nothing() -> None:
    """As where a sigmoid is saturated: losses and gradients of next to nothing."""
    gradient = {"weight": [1.0, 1.0, 4.0]}
    far = [replace(check, gradient=gradient) for check in checks()]
    apart = [replace(step, losses=(1.25 * step.losses[0],)) for step in training()]
    plain = Watched(training(), checks())
    judged = watched_verdict(plain, Watched(apart, far), Watched(training(), checks()), False, "bfloat16")
    assert (judged.accuracy, judged.why_not) == ("not checked", "noise")
    assert reasons(judged) == [
        "noise the size of rounding moves the losses by more than half, and rounding alone moves every "
        "gradient by more than half"
    ]
    evaluated = Watched(training(), [replace(check, evaluation=0.004) for check in checks()])
    lowered = watched_verdict(plain, Watched(apart, far), evaluated, False, "bfloat16")
    assert (lowered.accuracy, lowered.why_not) == ("not checked", "noise"), (
        "its evaluations do not tell either"
    )
    drawn = watched_verdict(plain, Watched(apart), Watched(training()), True, "bfloat16")
    assert drawn.passed, "other draws change losses anyway"
    assert watched_verdict(plain, Watched(training(), far), plain, False, "bfloat16").passed


@pytest.mark.attack("truth")
def test_a_lower_precision_whose_noise_makes_another_training_was_not_checked() -> None:
    """Single steps agree, and do not tell how it ends: a sigmoid rounded to 1 has no gradient."""
    plain = Watched(training(), checks())
    for size, passes in ((1.2, True), (1.5, False)):
        apart = [replace(step, losses=(size * step.losses[0],)) for step in training()]
        perturbed = Watched(apart, checks())
        judged = watched_verdict(plain, perturbed, plain, False, "bfloat16")
        assert judged.passed is passes
        assert watched_verdict(plain, perturbed, plain, False, "float32").passed
        assert watched_verdict(plain, perturbed, plain, True, "bfloat16").passed, "with other draws anyway"
    assert judged.why_not == "noise"
    assert reasons(judged) == [
        "noise the size of rounding makes another training of it: its losses differ by more than a quarter"
    ]


def test_one_large_loss_is_no_other_training() -> None:
    first = [replace(step, losses=(50.0 if n == 0 else 1.0,)) for n, step in enumerate(training())]
    apart = [replace(step, losses=(80.0 if n == 0 else 1.0,)) for n, step in enumerate(training())]
    plain = Watched(first, checks())
    assert watched_verdict(plain, Watched(apart, checks()), plain, False, "bfloat16").passed


def test_losses_of_next_to_nothing_at_the_end_are_no_other_training() -> None:
    learnt = [replace(step, losses=(1.0 if n < 20 else 1e-6,)) for n, step in enumerate(training())]
    apart = [replace(step, losses=(1.0 if n < 20 else 3e-6,)) for n, step in enumerate(training())]
    plain = Watched(learnt, checks())
    assert watched_verdict(plain, Watched(apart, checks()), plain, False, "bfloat16").passed


# ---- a script that decides by its losses
def found_by_steps(count: int, noise: float = 0.0) -> Trace:
    """A search for a rate of this many steps, then the training."""
    search = [replace(step, rates=((1e-5 * 2**n,),)) for n, step in enumerate(training(count, noise))]
    begun = training(60, noise)
    return [*search, replace(begun[0], begins=True), *begun[1:]]


@pytest.mark.parametrize(("ours", "theirs"), [(30, 28), (30, 33)])
def test_steps_whose_number_the_losses_decide_are_left(ours: int, theirs: int) -> None:
    assert steps_to_leave(found_by_steps(ours), found_by_steps(theirs, FLOAT32), False) == ours


def test_nothing_is_left_where_trainings_do_not_part_or_none_begins() -> None:
    assert steps_to_leave(found_by_steps(30), found_by_steps(30, FLOAT32), False) == 0
    assert steps_to_leave(training(), changed(9, rates=((0.5,),)), False) == 0


@pytest.mark.attack("truth")
def test_a_script_that_parts_even_without_noise_cannot_be_judged() -> None:
    before = training(30)
    other = [*before[:9], replace(before[9], streams="elsewhere"), *before[10:]]
    same, apart_ = Watched(training(), before=before), Watched(training(), before=other)
    assert apart_before(same, same, same) is None
    for trainings in ((same, apart_, same), (same, same, apart_)):
        judged = apart_before(*trainings)
        assert judged is not None
        assert (judged.accuracy, judged.why_not) == ("not checked", "unrepeatable")
        assert "different random numbers were drawn (from step 10)" in reasons(judged)[0]


def test_every_precision_of_a_technique_has_its_rounding() -> None:
    from hasten.inside.techniques.catalog import CATALOG

    assert {technique.precision for technique in CATALOG.values()} <= set(ROUNDING)


@pytest.mark.attack("truth")
@pytest.mark.parametrize(
    ("departure", "gradient", "precision", "accuracy"),
    [
        (3e-4, 1.0, "float32", "held"),  # a unit has turned
        (3e-4, 1.01, "float32", "not held"),
        (1.5e-3, 1.0, "float32", "not held"),
        (3.5e-3, 1.0, "bfloat16", "held"),  # less than one rounding
        (3.5e-3, 1.1, "bfloat16", "not held"),
        (4.5e-3, 1.0, "bfloat16", "not held"),
        (1.5e-3, 1.0, "float16", "not held"),
        (1.5e-3, 1.0, "float8", "not held"),  # whose rounding, 6%, would let anything pass
    ],
)
def test_losses_alone_are_less_sharp_where_single_steps_agree(
    departure: float, gradient: float, precision: str, accuracy: str
) -> None:
    baseline, perturbed = Watched(training(), checks()), Watched(training(noise=2.0**-30), checks())
    plan = Watched(with_losses(lambda _: 1 + departure), checks(gradient))
    assert watched_verdict(baseline, perturbed, plan, False, precision).accuracy == accuracy
    baseline.failed = "no room"
    assert watched_verdict(baseline, perturbed, plan, False, precision).accuracy == "not held"
