"""Does a step under the plan give the same result as the baseline's, from one state and one batch?

Rounding may do what it does to a perturbed baseline, by the same measures in the same steps.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from statistics import fmean, median

from ...records.comparison import (
    Scale,
    SingleSteps,
    StepDeparture,
    TensorDeparture,
    TensorScale,
)
from .checked_steps import Check
from .departures import (
    Departure,
    departure,
    departures,
    gradient_departures,
    gradient_sizes,
    tensor_departures,
)

ROUNDING = {  # relative, of one output: sums of hundreds of terms in a different order
    "float32": 2.0**-20,
    "tfloat32": 2.0**-11,
    "float16": 2.0**-11,
    "bfloat16": 2.0**-8,
    "float8": 2.0**-4,
}
# A candidate may differ by up to this many times a perturbed baseline. Seen: bfloat16 up to 4 times, planted
# faults at least 20 times in what catches them, or in their scale as below.
ROUNDING_TIMES = 8.0
REDRAWN_TIMES = 2.0  # relative to a baseline with different draws: one draw against another
REDRAWN_LEAST = 0.15  # relative; up to here it may still be rounding
REDRAWN_SCALE = 0.25  # share of the change by different draws that the scale may change, too; rarely seen
MEAN_TIMES = 3.0  # times a perturbed baseline's scale, root mean square, if scales are averaged
LEAST_CHECKS = 3
NOISE = 0.5  # a tensor that rounding alone moves by more than half cannot be compared
# Nor can one that moves this many times as far as one rounding: its terms cancel, like those of a bias before
# batch norm. Seen: up to 500 times if they do not, 200,000 times and more if they do.
CANCELLED = 1e4
# Times plain's: a smaller gradient is none. Rounding that turns and lengthens it as it likes leaves one. Seen
# where sigmoids that bfloat16 rounds to 1 let a network learn nothing: exactly 0.
VANISHED = 0.01

# A unit close to its kink (ReLU, max pooling) may switch with the least rounding, but rarely does: the few
# steps of a perturbed baseline may not show it. Seen: 0.1% of a gradient, 0.4% of one tensor's, in a
# ResNet in float32, its weights channels last.
TURNED = Departure(0.005, 0.02)
TURNED_TENSOR = 0.05
# One that is of more weight turns under more noise, too: how far it moves the gradient of one state and batch
# does not depend on the noise. Seen: 2.26% in a step of a harmless plan, 2.2% in the same step of half of the
# baselines with four times the noise. Two that turn together move it by the root of two times as much.
TURNED_TIMES = 1.5
SAME_GRADIENT = Departure(1e-3, 1e-3)  # of updates: both optimizers were handed the same gradient

InStep = Callable[[int], Departure]
"""What is tolerated in a step, by its number."""


def judge_steps(
    perturbed: Sequence[Check],
    candidate: Sequence[Check],
    draws: bool,
    precision: str,
    noisier: Sequence[Check] = (),
) -> SingleSteps:
    """What was compared and what came out; ``report.guard`` puts it into words. ``noisier``: of baselines
    with more noise, which tell what units may turn in the step that they check.
    """
    compared: dict[str, StepDeparture] = {}
    for what in _kinds(candidate):
        shown = departures(what, noisier) if what in ("gradient", "buffers") else []
        tolerance = _in_step(_tolerance(what, perturbed, draws, precision), shown)
        if not draws and what != "update":
            tolerance = _where_noisy(tolerance, what, perturbed, precision)
        choose = _middle if draws and what == "buffers" else _worst
        found = choose(departures(what, candidate), tolerance)
        if found is not None:
            compared[what] = _row(*found, tolerance(found[0]))
    if (gone := _vanished(perturbed, candidate)) is not None:
        compared["gradient"] = gone
    mean = _mean_scale(perturbed, candidate, draws, precision)
    tensor = _worst_tensor(perturbed, candidate, draws, precision, noisier)
    scaled = _worst_scale(perturbed, candidate) if precision == "float32" and not draws else None
    counts = {str(check.step): tuple(check.counts) for check in candidate if check.counts}
    found_all = [*compared.values(), *(one for one in (mean, tensor, scaled) if one is not None)]
    held, left_out = all(one.held for one in found_all) and not counts, ""
    if not (compared or counts):
        left_out = "no gradients were left at the end of a step"
    elif held and not draws and _are_all_noisy(departures("gradient", perturbed)):
        left_out = "rounding alone moves every gradient by more than half"
    return SingleSteps(
        held=held if not left_out else None,
        left_out=left_out,
        steps=tuple(check.step for check in candidate),
        precision=precision,
        draws=draws,
        compared=compared,
        mean_scale=mean,
        worst_tensor=tensor,
        worst_scale=scaled,
        counts=counts,
    )


def _kinds(checks: Sequence[Check]) -> list[str]:
    since = {f"since {kind}": None for check in checks for kind in check.since}
    return ["gradient", "update", "buffers", *since]


def _tolerance(what: str, perturbed: Sequence[Check], draws: bool, precision: str) -> Departure:
    if what == "update":
        return SAME_GRADIENT
    rounded = departures(what, perturbed)
    calm = [departed for step, departed in rounded if draws or step not in noisy_steps(rounded)]
    return _of_kind(what, _allowed(calm, draws, precision))


def _of_kind(what: str, tolerance: Departure) -> Departure:
    return _whole(tolerance) if what.startswith("since ") else tolerance


def noisy_steps(rounded: Sequence[tuple[int, Departure]]) -> set[int]:
    """Where rounding alone moves it by more than half, as it does a gradient of next to nothing. They say
    nothing of what rounding does in other steps.
    """
    return {step for step, departed in rounded if not departed.residual <= NOISE}


def _are_all_noisy(rounded: Sequence[tuple[int, Departure]]) -> bool:
    return bool(rounded) and noisy_steps(rounded) == {step for step, _ in rounded}


def _where_noisy(usual: InStep, what: str, perturbed: Sequence[Check], precision: str) -> InStep:
    """``usual``, except in those steps, for each of which its own noise counts."""
    rounded = departures(what, perturbed)
    noisy = noisy_steps(rounded)

    def allowed(step: int) -> Departure:
        there = [departed for number, departed in rounded if number == step]
        return _of_kind(what, _allowed(there, False, precision)) if step in noisy else usual(step)

    return allowed


def _allowed(perturbed: Sequence[Departure], draws: bool, precision: str) -> Departure:
    """Tolerance from the worst of a perturbed baseline's differences, but at least one rounding."""

    def times(worst: float) -> float:
        rounding = ROUNDING_TIMES * max(ROUNDING[precision], worst)
        return max(REDRAWN_TIMES * worst, min(rounding, REDRAWN_LEAST)) if draws else rounding

    scale = max((abs(departed.scale) for departed in perturbed), default=0.0)
    residual = max((departed.residual for departed in perturbed), default=0.0)
    turned = REDRAWN_SCALE * residual if draws else 0.0
    return Departure(max(TURNED.scale, turned, times(scale)), max(TURNED.residual, times(residual)))


def _whole(tolerance: Departure, least: float = 0.0) -> Departure:
    """If the scale adds nothing to the whole: with few entries, or if rounding has grown."""
    residual = max(least, tolerance.residual)
    return Departure(residual, residual)


def _in_step(tolerance: Departure, shown: Sequence[tuple[int, Departure]]) -> InStep:
    """``tolerance``, or what units turned in a step, by their steps, if that is more."""

    def allowed(step: int) -> Departure:
        there = [departed for number, departed in shown if number == step]
        scale = max((TURNED_TIMES * abs(departed.scale) for departed in there), default=0.0)
        residual = max((TURNED_TIMES * departed.residual for departed in there), default=0.0)
        return Departure(max(tolerance.scale, scale), max(tolerance.residual, residual))

    return allowed


def _worst(found: Sequence[tuple[int, Departure]], tolerance: InStep) -> tuple[int, Departure] | None:
    return max(found, key=lambda item: _excess(item[1], tolerance(item[0])), default=None)


def _middle(found: Sequence[tuple[int, Departure]], tolerance: InStep) -> tuple[int, Departure] | None:
    """The median step, for running statistics over different samples: once these have settled, what a step
    changes in them is chance, and no single step says anything.
    """
    ordered = sorted(found, key=lambda item: _excess(item[1], tolerance(item[0])))
    return ordered[len(ordered) // 2] if ordered else None


def _excess(departed: Departure, tolerance: Departure) -> float:
    """How much of the tolerance is used; endless for what is not a number."""
    used = max(abs(departed.scale) / tolerance.scale, departed.residual / tolerance.residual)
    return used if math.isfinite(used) else math.inf


def _vanished(perturbed: Sequence[Check], candidate: Sequence[Check]) -> StepDeparture | None:
    """The first step in which the candidate has no gradient left, though plain training has one, with noise,
    too. No tolerance for the size of a difference tells: zero is no further from a gradient than one that
    rounding has turned.
    """
    sizes = gradient_sizes(perturbed)
    for step, size in gradient_sizes(candidate, VANISHED):
        noisy = [other for number, other in sizes if number == step]
        if size < VANISHED and noisy and min(noisy) > 10 * VANISHED:
            return StepDeparture(
                size, 1 - VANISHED, held=False, step=step, residual=1.0, residual_tolerance=1.0
            )
    return None


def _mean_scale(
    perturbed: Sequence[Check], candidate: Sequence[Check], draws: bool, precision: str
) -> Scale | None:
    """The gradient's scale over all checked steps: a small error in each shows in the mean.

    None for fewer than ``LEAST_CHECKS``, which show too little of rounding, and if not numbers.
    """
    noisy = set() if draws else noisy_steps(departures("gradient", perturbed))
    ours, theirs = (
        [departed.scale for step, departed in departures("gradient", checks) if step not in noisy]
        for checks in (candidate, perturbed)
    )
    if min(len(ours), len(theirs)) < LEAST_CHECKS or not all(map(math.isfinite, (*ours, *theirs))):
        return None
    rounded = math.sqrt(fmean(scale * scale for scale in theirs))
    tolerance = max(TURNED.scale, MEAN_TIMES * max(ROUNDING[precision], rounded))
    scale = fmean(ours)
    return Scale(_number(1 + scale), _number(tolerance), held=draws or abs(scale) <= tolerance)


def _worst_tensor(
    perturbed: Sequence[Check],
    candidate: Sequence[Check],
    draws: bool,
    precision: str,
    noisier: Sequence[Check],
) -> TensorDeparture | None:
    """The parameter whose gradient differs most, relative to its own rounding."""
    worst: tuple[float, TensorDeparture] | None = None
    whole = gradient_departures(perturbed)
    for name in {name: None for check in candidate for name in check.gradient}:
        rounded = [departed for _, departed in tensor_departures(name, perturbed)]
        if any(departed.residual > min(NOISE, CANCELLED * ROUNDING[precision]) for departed in rounded):
            continue
        usual = _whole(_allowed([*rounded, *whole], draws, precision), TURNED_TENSOR)
        tolerance = _in_step(usual, tensor_departures(name, noisier))
        found = _worst(tensor_departures(name, candidate), tolerance)
        if found is None:
            continue
        allowed = tolerance(found[0])
        used = _excess(found[1], allowed)
        if worst is None or used > worst[0]:
            worst = used, TensorDeparture(tensor=name, **vars(_row(*found, allowed)))
    return worst[1] if worst else None


def _worst_scale(perturbed: Sequence[Check], candidate: Sequence[Check]) -> TensorScale | None:
    """The parameter whose gradient is off by the same factor in most steps, even by as little as one percent:
    units switch in single steps, and in either direction. Seen in harmless plans: 6e-7.
    """
    worst: tuple[float, TensorScale] | None = None
    for name in {name: None for check in candidate for name in check.gradient}:
        theirs, ours = (
            [departure(check.gradient[name]) for check in checks if check.gradient.get(name, [0.0])[0] > 0.0]
            for checks in (perturbed, candidate)
        )
        if min(len(ours), len(theirs)) < LEAST_CHECKS or any(one.residual > NOISE for one in theirs):
            continue
        if not all(math.isfinite(one.scale) for one in (*ours, *theirs)):
            continue  # reported already
        scale = median(one.scale for one in ours)
        tolerance = max(TURNED.scale, MEAN_TIMES * math.sqrt(fmean(one.scale**2 for one in theirs)))
        used = abs(scale) / tolerance
        if worst is None or used > worst[0]:
            worst = used, TensorScale(1 + scale, tolerance, abs(scale) <= tolerance, name)
    return worst[1] if worst else None


def _row(step: int, departed: Departure, tolerance: Departure) -> StepDeparture:
    return StepDeparture(
        step=step,
        scale=_number(1 + departed.scale),
        scale_tolerance=_number(tolerance.scale),
        residual=_number(departed.residual),
        residual_tolerance=_number(tolerance.residual),
        held=departed.within(tolerance),
    )


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None
