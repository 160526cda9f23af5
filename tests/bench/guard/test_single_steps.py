"""The judgement on single steps, from made-up sums."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import pytest

from hasten.bench.guard.checked_steps import LEAST_STEPS, Check, checked_steps
from hasten.bench.guard.guard import STEPS
from hasten.bench.guard.single_steps import (
    MEAN_TIMES,
    ROUNDING_TIMES,
    SAME_GRADIENT,
    TURNED,
    judge_steps,
)
from hasten.records.codec import from_json, to_json
from hasten.records.comparison import SingleSteps
from hasten.report.guard import step_reasons
from tests.bench.made_up import PRECISIONS


def sums(scale: float = 1.0, noise: float = 0.0, size: float = 4.0) -> list[float]:
    """Of a tensor that is ``scale`` times a reference of norm ``size`` with noise at right angles to it."""
    return [size**2, scale * size**2, size**2 * ((scale - 1) ** 2 + noise**2)]


def checks(scale: float = 1.0, noise: float = 0.0, **other: Any) -> list[Check]:
    gradient = {"weight": sums(scale, noise), "bias": sums(scale, noise, size=0.5)}
    usual: dict[str, Any] = {
        "update": {"weight": sums()},
        "buffers": {"mean": sums()},
        "since": {"parameters": sums()},
    }
    return [Check(step, gradient, **(usual | other)) for step in (1, 2, 20)]


def judged(
    candidate: list[Check],
    perturbed: list[Check] | None = None,
    draws: bool = False,
    precision: str = "float32",
) -> dict[str, Any]:
    """As JSON, and in words."""
    found = judge_steps(perturbed or checks(noise=1e-6), candidate, draws, precision)
    assert from_json(SingleSteps, to_json(found)) == found
    return {**json.loads(json.dumps(to_json(found), allow_nan=False)), "reasons": step_reasons(found)}


@pytest.mark.parametrize("precision", PRECISIONS)
def test_the_same_step_passes(precision: str) -> None:
    found = judged(checks(), precision=precision)
    assert found["held"]
    assert found["reasons"] == []
    assert found["steps"] == [1, 2, 20]
    assert set(found["compared"]) == {"gradient", "update", "buffers", "since parameters"}


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("factor", [1.05, 0.95])
def test_a_gradient_of_another_scale_is_caught(precision: str, factor: float) -> None:
    (reason, *_) = judged(checks(factor), precision=precision)["reasons"]
    assert reason.startswith(f"the gradient is {factor:.3f} times the baseline's in step 1")


@pytest.mark.parametrize(("precision", "most"), [("float32", TURNED.residual), ("bfloat16", 8 * 2**-8)])
def test_a_perturbed_baseline_counts_as_one_rounding_at_least(precision: str, most: float) -> None:
    """And as what a unit that turns brings about."""
    exact = checks(noise=0.0)
    assert judged(checks(noise=0.9 * most), exact, precision=precision)["held"]
    (reason, *_) = judged(checks(noise=1.1 * most), exact, precision=precision)["reasons"]
    assert reason.startswith("the gradient differs from the baseline's by")


@pytest.mark.parametrize("turned", [0.1, 0.2])
def test_a_gradient_that_rounding_turns_and_does_not_lengthen_has_its_scale(turned: float) -> None:
    """<c, r> alone would say that it is too small."""
    cosine = math.sqrt(1 - turned**2)

    def with_gradient(scale: float) -> list[Check]:
        apart = 1 + scale**2 - 2 * scale * cosine
        return [replace(c, gradient={"weight": [1.0, scale * cosine, apart]}) for c in checks()]

    rounded = checks(noise=turned)
    assert judged(with_gradient(1.0), rounded, precision="bfloat16")["held"]
    assert not judged(with_gradient(1.05), rounded, precision="bfloat16")["held"]
    assert not judged(with_gradient(0.95), rounded, precision="bfloat16")["held"]


def test_noise_up_to_so_many_times_what_rounding_does_passes() -> None:
    rounded = checks(noise=0.02)
    assert judged(checks(noise=0.02 * ROUNDING_TIMES * 0.98), rounded)["held"]
    assert not judged(checks(noise=0.02 * ROUNDING_TIMES * 1.02), rounded)["held"]


def with_noise(*noise: float, scale: float = 1.0) -> list[Check]:
    """What is beyond half of the size moves the scale as well, as it does."""
    return [
        replace(c, gradient={"weight": moved}, since={"parameters": moved})
        for c, one in zip(checks(), noise, strict=True)
        if (moved := sums(scale + (one if one > 0.5 else 0.0), one))
    ]


def in_step_2(checks: list[Check], scale: float, noise: float = 0.0, size: float = 4.0) -> list[Check]:
    return [replace(c, gradient={"weight": sums(scale, noise, size)}) if c.step == 2 else c for c in checks]


@pytest.mark.attack("truth")
@pytest.mark.parametrize("longer", [1.5, 1e8])
@pytest.mark.parametrize("draws", [False, True])
@pytest.mark.parametrize("precision", PRECISIONS)
def test_a_gradient_that_vanishes_is_not_what_rounding_does(
    precision: str, draws: bool, longer: float
) -> None:
    """Noise turned it by as much, and made it longer: a sigmoid that was 1 in bfloat16 alone had none, and
    noise after it one of 85 million times plain's.
    """
    rounded = in_step_2(checks(noise=1e-3), longer, longer)
    assert judged(in_step_2(checks(), 0.0, 1.0), rounded, draws, precision)["held"], (
        "as long, at right angles"
    )
    assert judged(in_step_2(checks(), 0.02), rounded, draws, precision)["held"]
    for scale in (0.0, 1e-9, 5e-3):
        found = judged(in_step_2(checks(), scale), rounded, draws, precision)
        assert not found["held"]
        assert found["compared"]["gradient"]["step"] == 2
        assert f"the gradient is {scale:.3f} times the baseline's in step 2" in found["reasons"][0]
        later = [replace(c, gradient={"weight": sums(5e-3)}) if c.step == 20 else c for c in rounded]
        assert not judged(in_step_2(checks(), scale), later, draws, precision)["held"], "another step's noise"


@pytest.mark.parametrize(("scale", "size"), [(5e-3, 4.0), (50.0, 0.01)])
def test_one_that_vanishes_with_noise_too_or_was_next_to_nothing_may(scale: float, size: float) -> None:
    rounded = in_step_2(checks(noise=1e-3), scale, size=size)
    assert judged(in_step_2(checks(), 0.0, size=size), rounded)["held"]


@pytest.mark.attack("truth")
@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("scale", [0.5, 1.5])
def test_a_step_whose_gradient_is_next_to_nothing_excuses_no_other(precision: str, scale: float) -> None:
    """As after an update that saturated a sigmoid: noise of any size makes it a million times larger."""
    rounded = with_noise(1e-3, 1e6, 1e-3)
    assert judged(with_noise(1e-3, 2e6, 1e-3), rounded, precision=precision)["held"]
    found = judged(with_noise(1e-3, 1e6, 1e-3, scale=scale), rounded, precision=precision)
    assert not found["held"]
    assert found["compared"]["gradient"]["step"] != 2
    assert found["compared"]["gradient"]["scale_tolerance"] < 0.1
    assert not judged(with_noise(1e-3, 1e8, 1e-3), rounded, precision=precision)["held"], "nor just anything"


def test_what_has_changed_since_is_compared_as_a_whole_where_it_is_noise() -> None:
    """Rounding has grown over many steps, and moved the size by chance as well."""
    exact = checks()
    grown = [replace(c, since={"parameters": sums(1.0, 0.6)}) for c in exact]
    found = judged([replace(c, since={"parameters": sums(1.2, 0.6)}) for c in exact], grown)
    assert found["compared"]["since parameters"]["held"]


@pytest.mark.attack("truth")
def test_the_mean_scale_is_of_the_steps_that_tell_of_it() -> None:
    """A little in each of them, where another one's noise would excuse anything."""
    steps = [replace(checks()[0], step=step) for step in (1, 2, 20, 40)]
    noise = (0.0, 1e6, 0.0, 0.0)

    def scaled(scale: float) -> list[Check]:
        moved = [{"weight": sums(scale + one, one)} for one in noise]
        return [replace(c, gradient=gradient) for c, gradient in zip(steps, moved, strict=True)]

    found = judged(scaled(1.015), scaled(1.0), precision="bfloat16")
    assert found["mean_scale"]["held"] is False
    assert found["mean_scale"]["scale"] == pytest.approx(1.015)


@pytest.mark.attack("truth")
def test_where_rounding_moves_every_gradient_nothing_was_compared() -> None:
    rounded = with_noise(2.0, 1e6, 0.6)
    found = judged(with_noise(1.0, 1.0, 0.5), rounded)
    assert found["held"] is None
    assert found["left_out"] == "rounding alone moves every gradient by more than half"
    assert judged(with_noise(1e9, 1.0, 1.0), rounded)["held"] is False
    assert judged(with_noise(1.0, 1.0, 0.5), rounded, draws=True)["held"]


def with_scales(*scales: float) -> list[Check]:
    return [replace(c, gradient={"weight": sums(scale)}) for c, scale in zip(checks(), scales, strict=True)]


def test_a_scale_that_is_off_a_little_in_every_step_is_caught_by_its_mean() -> None:
    """Each step alone would be rounding's."""
    rounded = with_scales(0.99, 1.02, 1.0)
    size = math.sqrt((0.01**2 + 0.02**2) / 3)
    fine, off = (1 + share * MEAN_TIMES * size for share in (0.98, 1.02))
    assert judged(with_scales(fine, fine, fine), rounded)["held"]
    reason, *_ = judged(with_scales(off, off, off), rounded)["reasons"]
    assert reason == (
        "the gradient is 1.040 times the baseline's on average over 3 steps, where rounding explains 3.9%"
    )
    assert judged(with_scales(off, 2 - off, 1.0), rounded)["held"]
    assert judged(with_scales(off, off, off), rounded, draws=True)["mean_scale"]["held"]


def test_a_tensor_whose_terms_cancel_is_not_compared() -> None:
    """Rounding moves it by a fifth here, and by many times itself in another order of the sum."""

    def cancelling(noise: float) -> list[Check]:
        return [Check(step, {"weight": sums(), "bias": sums(noise=noise, size=1e-7)}) for step in (1, 2, 20)]

    found = judged(cancelling(noise=7.9), cancelling(noise=0.2))
    assert found["held"], found["reasons"]
    assert found["worst_tensor"]["tensor"] == "weight"
    assert not judged(cancelling(noise=7.9), cancelling(noise=0.001))["held"]


def one_layer_by(*factors: float, noise: float = 0.0) -> list[Check]:
    """The gradient of a bias off by a factor in each step, next to weights that are ten times as large."""
    return [
        Check(step, {"weight": sums(size=10.0), "bias": sums(factor, noise)})
        for step, factor in zip((1, 2, 20, 41, 60), factors, strict=False)
    ]


@pytest.mark.parametrize("factor", [0.99, 1.01])
def test_one_percent_of_one_layer_is_caught(factor: float) -> None:
    (reason,) = judged(one_layer_by(*[factor] * 5))["reasons"]
    assert reason == (
        f"the gradient of bias is {factor:.4f} times the baseline's in most of 5 steps, where rounding "
        "explains 0.50%"
    )


def test_units_that_turn_in_some_steps_are_no_scale() -> None:
    assert judged(one_layer_by(1.012, 1.0, 0.99, 1.0, 1.0))["held"]
    assert judged(one_layer_by(1.0, 1.0, 1.0, 1.0, 1.0, noise=0.01))["held"]


def test_a_layer_that_rounding_alone_scales_so_is_not_caught() -> None:
    rounded = one_layer_by(1.004, 0.996, 1.004, 0.996, 1.004)
    assert judged(one_layer_by(*[1.01] * 5), rounded)["held"]
    assert not judged(one_layer_by(*[1.013] * 5), rounded)["held"]


def test_in_lower_precision_layers_have_scales_of_their_own() -> None:
    assert judged(one_layer_by(*[1.01] * 5), precision="bfloat16")["held"]


def of_statistics(*scales: float, noise: float = 1.0) -> list[Check]:
    return [
        Check(step, {"weight": sums()}, buffers={"mean": sums(scale, noise if scale else 0.0)})
        for step, scale in zip((1, 2, 20, 41, 60), scales, strict=True)
    ]


def test_statistics_over_other_samples_are_judged_by_most_steps() -> None:
    redrawn = of_statistics(0.9, 1.1, 1.0, 1.2, 0.9)
    by_chance, frozen = of_statistics(1.0, 0.9, 1.1, 0.2, 1.0), of_statistics(0.0, 0.0, 0.0, 0.0, 0.0)
    assert judged(by_chance, redrawn, draws=True)["held"]
    assert not judged(frozen, redrawn, draws=True)["held"]
    assert not judged(of_statistics(1.0, 1.0, 1.0, 0.2, 1.0, noise=0.0))["held"]  # over the same samples


def test_few_steps_have_no_mean() -> None:
    assert judged(checks()[:2])["mean_scale"] is None


def test_up_to_twice_what_other_draws_do_passes() -> None:
    redrawn = checks(scale=0.9, noise=0.3)
    assert judged(checks(scale=1.1, noise=0.4), redrawn, draws=True)["held"]
    assert not judged(checks(noise=0.7), redrawn, draws=True)["held"]
    assert not judged(checks(scale=1.25), redrawn, draws=True)["held"]


def test_gradients_that_other_draws_turn_far_have_scales_as_loose() -> None:
    redrawn = checks(noise=1.2)
    assert judged(checks(scale=0.7, noise=0.3), redrawn, draws=True)["held"]
    assert not judged(checks(scale=0.6, noise=0.1), redrawn, draws=True)["held"]
    assert not judged(checks(scale=0.7, noise=0.3), checks(noise=0.4), draws=True)["held"]


def test_what_other_draws_do_not_reach_may_be_rounding() -> None:
    """Statistics before the first dropout, say: twice what rounding does is too little."""
    rounded = checks(noise=0.01)
    assert judged(checks(noise=0.07), rounded, draws=True)["held"]
    assert not judged(checks(noise=0.09), rounded, draws=True)["held"]
    near = checks(noise=0.05)
    assert judged(checks(noise=0.14), near, draws=True)["held"]
    assert not judged(checks(noise=0.16), near, draws=True)["held"]


@pytest.mark.parametrize("draws", [False, True])
@pytest.mark.parametrize("precision", PRECISIONS)
def test_an_update_from_the_same_gradient_has_a_tolerance_of_its_own(precision: str, draws: bool) -> None:
    longer = checks(update={"weight": sums(1 + 2 * SAME_GRADIENT.scale)})
    perturbed = checks(noise=0.3, update={"weight": sums(1.2)})
    (reason,) = judged(longer, perturbed, draws, precision)["reasons"]
    assert reason.startswith("the optimizer's update is 1.002 times the baseline's")


def test_one_tensor_among_many_is_named() -> None:
    candidate = [
        replace(c, gradient={**c.gradient, "bias": sums(scale, size=5e-4)})
        for c, scale in zip(checks(), (1.0, 1.0, 1.2), strict=True)
    ]
    rounded = [replace(c, gradient={**c.gradient, "bias": sums(1.0, 0.01, size=5e-4)}) for c in checks()]
    found = judged(candidate, rounded, precision="bfloat16")
    assert found["worst_tensor"]["tensor"] == "bias"
    assert found["worst_tensor"]["step"] == 20
    assert found["reasons"] == [
        "the gradient of bias is 1.200 times the baseline's in step 20, where rounding explains 8.0%"
    ]


def test_a_tensor_that_is_nothing_but_rounding_is_not_compared() -> None:
    def with_noise(factor: float) -> list[Check]:
        return [replace(c, gradient={**c.gradient, "dead": [1e-18, 1e-18, factor * 1e-18]}) for c in checks()]

    assert judged(with_noise(1e6), with_noise(1.0))["held"]
    assert not judged(with_noise(1e6), with_noise(1e-6))["held"]


def test_a_bias_that_comes_by_zero_is_related_to_its_usual_size() -> None:
    """And so is rounding's share of it."""

    def with_bias(small_apart: float, usual_apart: float = 0.0) -> list[Check]:
        biases = ([1.0, 1.0, usual_apart], [1e-6, 1e-6, small_apart], [1.0, 1.0, usual_apart])
        return [
            replace(c, gradient={"weight": [100.0, 100.0, 0.0], "bias": bias})
            for c, bias in zip(checks(), biases, strict=True)
        ]

    assert judged(with_bias(1e-5))["held"]
    assert not judged(with_bias(1e-2))["held"]
    assert judged(with_bias(1e-2), with_bias(1e-5, 1e-3))["held"]


def test_a_tensor_without_gradient_may_get_some_by_rounding() -> None:
    def with_gradient(apart: float) -> list[Check]:
        return [replace(c, gradient={**c.gradient, "idle": [0.0, 0.0, apart]}) for c in checks()]

    assert judged(with_gradient(1e-12))["held"]
    assert not judged(with_gradient(0.1))["held"]


@pytest.mark.parametrize("precision", PRECISIONS)
def test_over_several_steps_the_whole_counts(precision: str) -> None:
    rounded = checks(since={"exp_avg": sums(noise=0.05)})
    most = 0.05 * ROUNDING_TIMES
    fine = judged(checks(since={"exp_avg": sums(1 - 0.9 * most)}), rounded, precision=precision)
    assert fine["held"]
    off = judged(checks(since={"exp_avg": sums(1 - 1.1 * most)}), rounded, precision=precision)
    (reason,) = off["reasons"]
    assert reason.startswith("what the optimizer keeps (exp_avg)")


def test_counts_that_differ_fail() -> None:
    (*_, reason) = judged(checks(counts=["step of weight"]))["reasons"]
    assert reason == "step of weight in state or buffers differ before step 20"


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_what_is_no_number_fails(value: float) -> None:
    candidate = checks()
    candidate[1] = replace(candidate[1], gradient={"weight": [16.0, value, value]})
    found = judged(candidate)
    assert not found["held"]
    assert found["reasons"][0] == "the gradient is not a number in step 2"


def test_a_baseline_without_any_gradient_is_no_measure() -> None:
    assert not judged([Check(1, {"weight": [0.0, 0.0, 1.0]})])["held"]


def test_steps_without_optimizer_compare_gradients_alone() -> None:
    assert list(judged([Check(1, {"weight": sums()})])["compared"]) == ["gradient"]


@pytest.mark.parametrize("steps", [1, 2, 5, LEAST_STEPS, 60, STEPS])
def test_checked_steps_are_among_the_steps(steps: int) -> None:
    found = checked_steps(steps)
    assert found == sorted(set(found))
    assert all(1 < step <= steps for step in found)
    assert steps < LEAST_STEPS or len(found) == 4
