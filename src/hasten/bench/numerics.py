"""Does a step under the plan make of one state and one batch what the baseline's makes of them?

Each tensor c of a candidate is compared with the reference's r by its scale and by |c - r| / |r|. Rounding
moves single entries much and the scale little: gradients that are 1.05 times what they should be are seen by
their scale even under bfloat16. Two measures hold the scale between them: <c, r> / <r, r>, which rounding
makes too small where it turns c away from r (seen: by 1.5%, in a ResNet under bfloat16), and |c| / |r|, which
it makes too large where it adds to c. The scale departs from 1 only as far as both say.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .checked_steps import Check, Sums

ROUNDING_TIMES = 4.0  # a candidate may depart as far as this many times a perturbed baseline
REDRAWN_TIMES = 2.0  # as a baseline with other draws: one draw stands against another
NOISE = 0.5  # a tensor that rounding alone moves by more than half holds nothing to compare


@dataclass(frozen=True)
class Departure:
    """Of the scale from 1, and |c - r| / |r|."""

    scale: float
    residual: float

    def within(self, tolerance: Departure) -> bool:
        return abs(self.scale) <= tolerance.scale and self.residual <= tolerance.residual


FLOORS = {  # below these, a departure is rounding, however little the perturbed baseline happens to depart
    "float32": Departure(0.005, 0.02),
    "float8": Departure(0.05, 0.5),
    "tfloat32": Departure(0.01, 0.1),
    "float16": Departure(0.01, 0.1),
    "bfloat16": Departure(0.02, 0.3),  # seen: 0.13 in a ResNet, 0.04 in a small CNN
}
ONE_TENSOR = {
    "float8": 0.5,
    "float32": 0.05,
    "tfloat32": 0.2,
    "float16": 0.2,
    "bfloat16": 0.5,
}  # seen: 0.24 in a ResNet, for a bias of few entries
OVER_STEPS = {
    "float8": 0.5,
    "float32": 0.1,
    "tfloat32": 0.2,
    "float16": 0.2,
    "bfloat16": 0.4,
}  # departures grow, and steps of Adam turn rounding into updates
SAME_GRADIENT = Departure(1e-3, 1e-3)  # of updates: both optimizers were handed the same gradient
_WORDS = {
    "gradient": "the gradient",
    "update": "the optimizer's update",
    "buffers": "the change of buffers in a step (running statistics)",
    "since parameters": "the change of the parameters over several steps",
    "since buffers": "the change of buffers over several steps (running statistics)",
}


def judge_steps(
    perturbed: Sequence[Check], candidate: Sequence[Check], draws: bool, precision: str
) -> dict[str, Any]:
    """What was compared and what came out. ``reasons`` are empty where it held; ``held`` is None, and
    ``left_out`` says why, where nothing could be compared.
    """
    times = REDRAWN_TIMES if draws else ROUNDING_TIMES
    compared = {}
    for what in _kinds(candidate):
        tolerance = _tolerance(what, perturbed, times, precision)
        found = _worst(_departures(what, candidate), tolerance)
        if found is not None:
            compared[what] = _row(*found, tolerance)
    tensor = _worst_tensor(perturbed, candidate, times, precision)
    counts = {str(check.step): list(check.counts) for check in candidate if check.counts}
    reasons = [_reason(_words(what), row, draws) for what, row in compared.items() if not row["held"]]
    if tensor and not tensor["held"]:
        reasons.append(_reason(f"the gradient of {tensor['tensor']}", tensor, draws))
    for step, names in counts.items():
        reasons.append(f"{', '.join(names[:3])} in state or buffers differ before step {step}")
    return {
        "held": not reasons if compared else None,
        "left_out": "" if compared else "no gradients were left at the end of a step",
        "steps": [check.step for check in candidate],
        "precision": precision,
        "draws": draws,
        "compared": compared,
        "worst_tensor": tensor,
        "counts": counts,
        "reasons": reasons,
    }


def _kinds(checks: Sequence[Check]) -> list[str]:
    since = {f"since {kind}": None for check in checks for kind in check.since}
    return ["gradient", "update", "buffers", *since]


def _words(what: str) -> str:
    kept = what.removeprefix("since ")
    return _WORDS.get(what, f"what the optimizer keeps ({kept})")


def _departures(what: str, checks: Sequence[Check]) -> list[tuple[int, Departure]]:
    """With their steps."""
    found = []
    for check in checks:
        if what.startswith("since "):
            sums = check.since.get(what.removeprefix("since "))
        else:
            sums = _total(getattr(check, what).values())
        if sums is not None:
            found.append((check.step, departure(sums)))
    return found


def departure(sums: Sums, whole: float = 0.0) -> Departure:
    """``whole``: <r, r> of all tensors, to which one is related whose own is nothing."""
    reference, product, apart = sums
    if apart == 0.0:
        return Departure(0.0, 0.0)
    if reference > 0.0:
        return Departure(_scale(product / reference, apart / reference) - 1, math.sqrt(apart / reference))
    return Departure(0.0, math.sqrt(apart / whole) if whole > 0.0 else math.inf)


def _scale(slope: float, apart: float) -> float:
    """From <c, r> / <r, r> and |c - r|^2 / |r|^2."""
    square = apart + 2 * slope - 1  # of |c| / |r|
    if not math.isfinite(square):
        return square
    size = math.sqrt(max(square, 0.0))
    return 1.0 if (size - 1) * (slope - 1) <= 0 else min(size, slope, key=lambda scale: abs(scale - 1))


def _total(several: Iterable[Sums]) -> Sums | None:
    listed = list(several)
    return [sum(column) for column in zip(*listed, strict=True)] if listed else None


def _tolerance(what: str, perturbed: Sequence[Check], times: float, precision: str) -> Departure:
    if what == "update":
        return SAME_GRADIENT
    found = [departed for _, departed in _departures(what, perturbed)]
    if what.startswith("since "):
        return _whole(OVER_STEPS[precision], found, times)
    return _wider(FLOORS[precision], found, times)


def _wider(floor: Departure, found: Sequence[Departure], times: float) -> Departure:
    scale = max((abs(departed.scale) for departed in found), default=0.0)
    residual = max((departed.residual for departed in found), default=0.0)
    return Departure(max(floor.scale, times * scale), max(floor.residual, times * residual))


def _whole(floor: float, found: Sequence[Departure], times: float) -> Departure:
    """Where the scale says nothing that the whole does not: of few entries, or where rounding has grown."""
    residual = _wider(Departure(floor, floor), found, times).residual
    return Departure(residual, residual)


def _worst(found: Sequence[tuple[int, Departure]], tolerance: Departure) -> tuple[int, Departure] | None:
    return max(found, key=lambda item: _excess(item[1], tolerance), default=None)


def _excess(departed: Departure, tolerance: Departure) -> float:
    """How much of the tolerance is used; endless for what is no number."""
    used = max(abs(departed.scale) / tolerance.scale, departed.residual / tolerance.residual)
    return used if math.isfinite(used) else math.inf


def _worst_tensor(
    perturbed: Sequence[Check], candidate: Sequence[Check], times: float, precision: str
) -> dict[str, Any] | None:
    """The parameter whose gradient departs the most, by its own rounding."""
    worst: tuple[float, dict[str, Any]] | None = None
    for name in {name: None for check in candidate for name in check.gradient}:
        rounded = [departed for _, departed in _of_tensor(name, perturbed)]
        if any(departed.residual > NOISE for departed in rounded):
            continue
        tolerance = _whole(ONE_TENSOR[precision], rounded, times)
        found = _worst(_of_tensor(name, candidate), tolerance)
        if found is not None and (worst is None or _excess(found[1], tolerance) > worst[0]):
            worst = (_excess(found[1], tolerance), {"tensor": name, **_row(*found, tolerance)})
    return worst[1] if worst else None


def _of_tensor(name: str, checks: Sequence[Check]) -> list[tuple[int, Departure]]:
    return [
        (check.step, departure(check.gradient[name], whole=sum(sums[0] for sums in check.gradient.values())))
        for check in checks
        if name in check.gradient
    ]


def _row(step: int, departed: Departure, tolerance: Departure) -> dict[str, Any]:
    return {
        "step": step,
        "scale": _number(1 + departed.scale),
        "scale_tolerance": _number(tolerance.scale),
        "residual": _number(departed.residual),
        "residual_tolerance": _number(tolerance.residual),
        "held": departed.within(tolerance),
    }


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _reason(what: str, row: Mapping[str, Any], draws: bool) -> str:
    explains = "where other draws explain" if draws else "where rounding explains"
    if row["scale"] is None or row["residual"] is None:
        return f"{what} holds no numbers in step {row['step']}"
    if abs(row["scale"] - 1) > (row["scale_tolerance"] or math.inf):
        return (
            f"{what} is {row['scale']:.3f} times the baseline's in step {row['step']}, "
            f"{explains} {row['scale_tolerance']:.1%}"
        )
    return (
        f"{what} departs from the baseline's by {row['residual']:.1%} in step {row['step']}, "
        f"{explains} {row['residual_tolerance']:.1%}"
    )
