"""How far single steps of a plan differ from the baseline's, from one state and one batch.

Each tensor c of a candidate is compared with the reference's r by its scale and by |c - r| / |r|. Rounding
moves single entries a lot and the scale little: gradients that are 1.05 times too large show in their scale
even under bfloat16. Two measures bound the scale: <c, r> / <r, r>, which rounding makes too small if it turns
c away from r (seen: by 1.5%, in a ResNet under bfloat16), and |c| / |r|, which rounding makes too large if it
adds to c. The scale differs from 1 only as far as both say.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median

from ...records.messages import Sums
from .checked_steps import Check


@dataclass(frozen=True)
class Departure:
    """How far the scale is from 1, and |c - r| / |r|."""

    scale: float
    residual: float

    def within(self, tolerance: Departure) -> bool:
        """Whether neither is larger than allowed. What is not a number is not within."""
        return abs(self.scale) <= tolerance.scale and self.residual <= tolerance.residual


def departures(what: str, checks: Sequence[Check]) -> list[tuple[int, Departure]]:
    """Departures with their steps."""
    found = []
    for check in checks:
        if what.startswith("since "):
            sums = check.since.get(what.removeprefix("since "))
        else:
            sums = _total(getattr(check, what).values())
        if sums is not None:
            found.append((check.step, departure(sums)))
    return found


def gradient_departures(checks: Sequence[Check]) -> list[Departure]:
    """Departures of the whole gradient, one per step."""
    return [departed for _, departed in departures("gradient", checks)]


def gradient_sizes(checks: Sequence[Check], least: float = 0.0) -> list[tuple[int, float]]:
    """|c| / |r| of the whole gradient, with the steps; without those in which r is less than ``least`` times
    its median.
    """
    found, sizes = [], [sum(sums[0] for sums in check.gradient.values()) for check in checks]
    usual = median(sizes) if sizes else 0.0
    for check in checks:
        reference, product, apart = _total(check.gradient.values()) or (0.0, 0.0, 0.0)
        if reference > least * least * usual:
            square = 1 + (apart + 2 * (product - reference)) / reference
            found.append((check.step, math.sqrt(max(square, 0.0)) if math.isfinite(square) else math.inf))
    return found


def departure(sums: Sums, whole: float = 0.0) -> Departure:
    """``whole``: <r, r> of all tensors, used for a tensor whose own is zero."""
    reference, product, apart = sums
    if apart == 0.0:
        return Departure(0.0, 0.0)
    if reference > 0.0:
        return Departure(_scale(product / reference, apart / reference) - 1, math.sqrt(apart / reference))
    return Departure(0.0, math.sqrt(apart / whole) if whole > 0.0 else math.inf)


def _scale(slope: float, apart: float) -> float:
    """The scale, from <c, r> / <r, r> and |c - r|^2 / |r|^2."""
    square = apart + 2 * slope - 1  # of |c| / |r|
    if not math.isfinite(square):
        return square
    size = math.sqrt(max(square, 0.0))
    return 1.0 if (size - 1) * (slope - 1) <= 0 else min(size, slope, key=lambda scale: abs(scale - 1))


def _total(several: Iterable[Sums]) -> Sums | None:
    listed = list(several)
    return [sum(column) for column in zip(*listed, strict=True)] if listed else None


def tensor_departures(name: str, checks: Sequence[Check]) -> list[tuple[int, Departure]]:
    """If the tensor is smaller than usual, relative to its usual size: a bias with one entry may pass zero in
    a step.
    """
    having = [check for check in checks if name in check.gradient]
    usual = median(check.gradient[name][0] for check in having) if having else 0.0
    found = []
    for check in having:
        reference, _, apart = check.gradient[name]
        if 0.0 < reference < usual:
            found.append((check.step, Departure(0.0, math.sqrt(apart / usual))))
        else:
            whole = sum(sums[0] for sums in check.gradient.values())
            found.append((check.step, departure(check.gradient[name], whole)))
    return found
