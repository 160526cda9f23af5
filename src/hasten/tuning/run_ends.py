"""What comes between the steps of a run, and after its last one, as far as processes showed it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from statistics import fmean

from ..bench.comparing.epoch_ends import EpochEnd
from ..records.plan import Plan
from ..records.run_forecast import ForecastPart, Span
from .run_spans import NOTHING, independent, not_below_nothing, several, together

Draws = tuple[tuple[float, ...], ...]
"""Seconds, by process."""


@dataclass(frozen=True)
class Ends:
    """Seconds of one kind under a plan: ``first`` of each process, and ``later``. ``others``: it was only
    seen under other plans, of which the nearest are used; these are its seconds under all plans.
    """

    first: Draws = ()
    later: Draws = ()
    others: tuple[float, ...] = ()

    @classmethod
    def under(cls, plan: Plan, seen: Sequence[EpochEnd]) -> Ends:
        """Those seen under ``plan``, or under the plans nearest to it."""
        apart = [_apart(plan, one.plan) for one in seen]
        least = min(apart, default=0)
        near = [one for one, distance in zip(seen, apart, strict=True) if distance == least]
        return cls(
            _by_process([one for one in near if one.first]),
            _by_process([one for one in near if not one.first]),
            tuple(one.seconds for one in seen) if least else (),
        )

    @property
    def draws(self) -> Draws:
        """Those that represent a whole run: the later ones, if there were any."""
        return self.later or self.first

    @property
    def each(self) -> float:
        """Seconds of one, averaged over processes."""
        return fmean(map(fmean, self.draws)) if self.draws else 0.0

    def span(self, times: float) -> Span:
        """This many of them, together, none the first of its process."""
        found = several(self.draws, times)
        if self.others:  # a technique that none of these plans had may remove most of it
            return Span(found.value, 0.0, max(found.high, times * max(self.others)))
        return not_below_nothing(found)

    def with_first(self, span: Span, times: float) -> Span:
        """``span`` of this many, of which the first may fill caches, or find them cold."""
        if not (self.first and self.later):
            return span
        more = max(0.0, fmean(map(fmean, self.first)) - span.value / times)
        once = several(self.first, 1.0)
        low = max(0.0, more - once.value + once.low)
        return independent([span, Span(more, low, more - once.value + once.high)])


@dataclass(frozen=True)
class Between:
    """One kind of what comes between steps, plain and under the plan: after ``every`` steps, ``in_run`` times
    in the whole run, if its length is known.
    """

    plain: Ends
    planned: Ends
    every: float
    in_run: int | None = None

    def spans(self, steps: int, whole: bool) -> tuple[Span, Span]:
        """For this many steps, plain and under the plan; for a ``whole`` run including the first of them."""
        times = float(self.in_run) if whole and self.in_run is not None else steps / self.every
        if not times:
            return NOTHING, NOTHING
        plain = self.plain.span(times)
        planned = self.planned.span(times) if self.planned.later else self._as_plain(plain, times)
        if not whole:
            return plain, planned
        return self.plain.with_first(plain, times), self._planned_first(planned, times)

    @property
    def as_plain(self) -> bool:
        """Whether no process under the plan was seen to have a second one."""
        return not self.planned.later

    def _as_plain(self, plain: Span, times: float) -> Span:
        """For a plan with only first ends seen: later ones may take less than
        any of these.
        """
        most = max((max(draws) for draws in self.planned.first), default=0.0)
        return Span(plain.value, 0.0, max(plain.high, times * most))

    def _planned_first(self, span: Span, times: float) -> Span:
        if self.planned.later:
            return self.planned.with_first(span, times)
        return replace(self.planned, later=self.plain.draws, others=()).with_first(span, times)


@dataclass(frozen=True)
class Tail:
    """What comes after the last step. ``saved``: what the plan saves of an evaluation, if one is
    in it.
    """

    plain: Ends
    planned: Ends
    saved: float = 0.0

    def part(self) -> ForecastPart:
        """Seconds after the last step, plain and under the plan."""
        plain = self.plain.span(1.0)
        if self.planned.draws and not self.planned.others:
            return ForecastPart("tail", plain, self.planned.span(1.0))
        left = max(0.0, plain.value - self.saved)
        high = plain.high + max(0.0, -self.saved)
        return ForecastPart("tail", plain, Span(left, min(plain.low, left), high))


def between_part(kinds: Sequence[Between], steps: int, whole: bool) -> ForecastPart:
    """Seconds of all kinds together: in one process they are slow or fast together."""
    if not kinds:
        return ForecastPart("epoch ends", NOTHING, NOTHING)
    plain, planned = zip(*(kind.spans(steps, whole) for kind in kinds), strict=True)
    return ForecastPart("epoch ends", together(plain), together(planned))


def _by_process(ends: Sequence[EpochEnd]) -> Draws:
    order = sorted(ends, key=_process)
    return tuple(tuple(one.seconds for one in group) for _, group in groupby(order, _process))


def _process(end: EpochEnd) -> int:
    return end.process


def _apart(a: Plan, b: Plan) -> int:
    """How many techniques or settings are in only one of the two."""
    names = {*a.techniques, *b.techniques}
    return sum(a.techniques.get(name) != b.techniques.get(name) for name in names)
