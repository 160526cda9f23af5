"""What a plan means for a whole run, from what a tune has measured anyhow: no step is trained for it.

A run is its start, its steps, what comes between epochs, and the set-up of the plan. The plan changes its
steps by what is claimed of them, and costs its set-up; its start and what comes between epochs are told as
they were timed under it. A run is one process: the intervals are for one, not for the mean of many, and parts
of a run err independently of each other, so that their squared half-widths add up.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean, median, stdev

from ..bench.comparing.epoch_ends import EpochEnd
from ..bench.comparing.statistics import mean_interval, t_quantile
from ..bench.workers.starting import START_OVERLAP
from ..records.plan import Plan
from ..records.run_forecast import Assumed, ForecastPart, RunForecast, RunLength, SeenProcess, Span
from ..records.trial import Ratio

SEEN_ONCE = 0.25  # of a time that was seen once: how far the next may be from it
UNSEEN = 0.1  # of a run of which a part was not seen: by how much longer it may be
STEPS = 1000  # that are told of where neither run nor epoch is known
NOTHING = Span(0.0, 0.0, 0.0)


@dataclass(frozen=True)
class Ends:
    """Seconds of what came between epochs under a plan: ``first`` of each process, and ``later``. ``others``:
    under all plans, where it was seen under other plans alone, of which the nearest are taken.
    """

    first: tuple[float, ...] = ()
    later: tuple[float, ...] = ()
    others: tuple[float, ...] = ()

    @classmethod
    def under(cls, plan: Plan, seen: Sequence[EpochEnd]) -> Ends:
        """Those seen under ``plan``, or under the plans that are nearest to it."""
        apart = [_apart(plan, one.plan) for one in seen]
        least = min(apart, default=0)
        near = [one for one, distance in zip(seen, apart, strict=True) if distance == least]
        return cls(
            tuple(one.seconds for one in near if one.first),
            tuple(one.seconds for one in near if not one.first),
            tuple(one.seconds for one in seen) if least else (),
        )

    @property
    def seconds(self) -> tuple[float, ...]:
        """Those that stand for all of a run: the later ones, if there were any."""
        return self.later or self.first


@dataclass(frozen=True)
class Measured:
    """What a tune knows of a run. ``ratio`` is the claim: the plan's time over plain's. ``plain`` and
    ``planned``: the processes of its pairs, in order. ``start_seconds``: of a plain process that started
    alone, to its first step's end. ``ends_every``: steps between two ends of epochs, None where none was
    seen. ``of_stretches``: the claim is of whole stretches of the run, and ``ratio`` that of their regular
    steps, which alone need not gain.
    """

    ratio: Ratio
    plain: Sequence[SeenProcess]
    planned: Sequence[SeenProcess]
    start_seconds: float
    setup_seconds: float
    length: RunLength
    ends_plain: Ends = Ends()
    ends_planned: Ends = Ends()
    ends_every: float | None = None
    of_stretches: bool = False
    command_seconds: float = 0.0  # that hasten's own command takes before the script starts


def forecast(seen: Measured, tune_seconds: float) -> RunForecast | None:
    """None where the claim's interval includes 1, or fewer than two pairs told what they took."""
    if (seen.ratio.high >= 1 and not seen.of_stretches) or min(len(seen.plain), len(seen.planned)) < 2:
        return None
    length = seen.length
    steps = length.steps or length.epoch_steps or STEPS
    whole = length.steps is not None
    trained = max(1, steps - whole)  # the first step of a run belongs to its start
    parts = [_steps(seen, trained), _ends(seen, steps, whole)]
    saved = [_steps_saved(seen, trained), _difference(parts[1])]
    slower = 0.0
    if whole:
        start, start_saved = _start(seen)
        set_up = Span(seen.setup_seconds, seen.setup_seconds / START_OVERLAP, seen.setup_seconds)
        command = _around(seen.command_seconds, SEEN_ONCE)
        parts = [
            ForecastPart("hasten", NOTHING, command),
            start,
            *parts,
            ForecastPart("set-up", NOTHING, set_up),
        ]
        saved += [start_saved, _less(NOTHING, command), _less(NOTHING, set_up)]
        slower = max(0.0, -start_saved.value) if start_saved.high < 0 else 0.0
    unseen = not seen.ends_plain.seconds
    found = RunForecast(
        of="run" if whole else "epoch" if length.epoch_steps else "steps",
        steps=steps,
        epochs=length.epochs,
        before=_whole([part.before for part in parts], unseen),
        after=_whole([part.after for part in parts], unseen),
        saved=_sum(saved),
        parts=tuple(part for part in parts if part.before.high or part.after.high),
        slower_start=slower,
        assumed=_assumed(seen),
    )
    return _paying(found, seen, tune_seconds) if found.is_faster else found


def _paying(found: RunForecast, seen: Measured, tune_seconds: float) -> RunForecast:
    """``found`` with when the tune has paid. A longer run has the same start and set-up."""
    each = (_steps_saved(seen, found.steps).value + _difference(_ends(seen, found.steps)).value) / found.steps
    fixed = seen.command_seconds + seen.setup_seconds - _start(seen)[1].value
    steps = max(1, math.ceil((tune_seconds + fixed) / each)) if each > 0 else None
    epoch = seen.length.epoch_steps
    return replace(
        found,
        pays_runs=math.ceil(tune_seconds / found.saved.value) if found.of == "run" else None,
        pays_epochs=math.ceil(steps / epoch) if steps is not None and epoch else None,
        pays_steps=steps,
    )


def _assumed(seen: Measured) -> tuple[Assumed, ...]:
    found: list[Assumed] = []
    if seen.length.source == "loader":
        found.append("length by loader")
    if not seen.ends_plain.seconds:
        return (*found, "ends unseen")
    if len(seen.ends_plain.seconds) < 2:
        found.append("ends seen once")
    if not seen.ends_planned.later:
        found.append("ends as plain")
    if seen.ends_plain.others or seen.ends_planned.others:
        found.append("ends of other plans")
    return tuple(found)


# ---- parts
def _steps(seen: Measured, steps: int) -> ForecastPart:
    logs = [math.log(one.step_seconds) for one in seen.plain]
    before = _around(steps * math.exp(fmean(logs)), _of_one(logs))
    ratio, spread = seen.ratio, _of_planned(seen)
    low = math.hypot(math.log(ratio.value / ratio.low), spread)
    high = math.hypot(math.log(ratio.high / ratio.value), spread)
    value = before.value * ratio.value
    return ForecastPart("steps", before, Span(value, value * math.exp(-low), value * math.exp(high)))


def _steps_saved(seen: Measured, steps: int) -> Span:
    """What is sure of the claim is sure of this, so it is not the difference of the two spans."""
    before, ratio, spread = _steps(seen, steps).before, seen.ratio, _of_planned(seen)
    least = 1 - ratio.value * math.exp(math.hypot(math.log(ratio.high / ratio.value), spread))
    most = 1 - ratio.value * math.exp(-math.hypot(math.log(ratio.value / ratio.low), spread))
    low = (before.low if least > 0 else before.high) * least
    return Span(before.value * (1 - ratio.value), low, before.high * most)


def _start(seen: Measured) -> tuple[ForecastPart, Span]:
    """It, and what of it is saved: below 0 where processes under the plan start more slowly.

    Processes of a pair start side by side, so that each takes longer than alone: their ratio counts.
    """
    plain, planned = ([one.start_seconds for one in side] for side in (seen.plain, seen.planned))
    if min(*plain, *planned) <= 0:
        same = _around(seen.start_seconds, SEEN_ONCE)
        return ForecastPart("start", same, same), NOTHING
    logs = [math.log(one) for one in plain]
    usual = min(seen.start_seconds or math.inf, median(plain))  # the first of all reads files from the disk
    before = _around(usual, _of_one(logs))
    ratio = mean_interval([math.log(b / a) for a, b in zip(plain, planned, strict=True)])
    assert ratio is not None
    half = math.hypot(_of_one(logs), ratio.high - ratio.value)
    after = _around(usual * math.exp(ratio.value), half)
    saved = Span(*(usual * (1 - math.exp(one)) for one in (ratio.value, ratio.high, ratio.low)))
    return ForecastPart("start", before, after), saved


def _ends(seen: Measured, steps: int, whole: bool = False) -> ForecastPart:
    """Those of so many steps; of a ``whole`` run, which has the first one, too."""
    times = steps / seen.ends_every if seen.ends_every else 0.0
    if not times or not seen.ends_plain.seconds:
        return ForecastPart("epoch ends", NOTHING, NOTHING)
    plain = _of_ends(seen.ends_plain, times)
    planned = _of_ends(seen.ends_planned, times) if seen.ends_planned.later else _as_plain(seen, plain, times)
    if not whole:
        return ForecastPart("epoch ends", plain, planned)
    return ForecastPart(
        "epoch ends",
        _with_first(plain, seen.ends_plain, times),
        _with_first(planned, seen.ends_planned, times),
    )


def _of_ends(ends: Ends, times: float) -> Span:
    """So many of them, together."""
    count, mean = len(ends.seconds), fmean(ends.seconds)
    half = SEEN_ONCE * mean
    if count > 1:
        half = t_quantile(0.95, count - 1) * stdev(ends.seconds) * math.sqrt(1 / count + 1 / times)
    low, high = mean - half, mean + half
    if ends.others:  # a technique that none of these had may leave little of it
        low, high = 0.0, max(high, *ends.others)
    return Span(times * mean, times * max(0.0, low), times * high)


def _as_plain(seen: Measured, plain: Span, times: float) -> Span:
    """Under a plan of which no end but the first of a process was seen: later ones may take less than any."""
    most = max(seen.ends_planned.first, default=0.0)
    return Span(plain.value, 0.0, max(plain.high, times * most))


def _with_first(span: Span, ends: Ends, times: float) -> Span:
    more = max(0.0, fmean(ends.first) - span.value / times) if ends.first else 0.0
    return Span(span.value + more, span.low + more, span.high + more)


# ---- intervals
def _of_one(logs: Sequence[float]) -> float:
    """By how much one more may lie from the mean of these."""
    count = len(logs)
    return t_quantile(0.95, count - 1) * stdev(logs) * math.sqrt(1 + 1 / count)


def _of_planned(seen: Measured) -> float:
    """How far single processes of the plan lie from their mean, as logarithms: the claim is of that mean."""
    logs = [math.log(one.step_seconds) for one in seen.planned]
    return t_quantile(0.95, len(logs) - 1) * stdev(logs)


def _around(value: float, half: float) -> Span:
    return Span(value, value * math.exp(-half), value * math.exp(half))


def _sum(spans: Sequence[Span]) -> Span:
    value = sum(span.value for span in spans)
    low = math.hypot(*(span.value - span.low for span in spans))
    high = math.hypot(*(span.high - span.value for span in spans))
    return Span(value, value - low, value + high)


def _whole(spans: Sequence[Span], unseen: bool) -> Span:
    """All parts of a run together; ``unseen``: but for one that nobody saw."""
    found = _sum(spans)
    longer = UNSEEN * found.value if unseen else 0.0
    return Span(found.value, max(0.0, found.low), found.high + longer)


def _less(a: Span, b: Span) -> Span:
    """a - b."""
    return _sum([a, Span(-b.value, -b.high, -b.low)])


def _difference(part: ForecastPart) -> Span:
    return _less(part.before, part.after)


def _apart(a: Plan, b: Plan) -> int:
    """How many techniques, or settings of one, are in one of the two alone."""
    names = {*a.techniques, *b.techniques}
    return sum(a.techniques.get(name) != b.techniques.get(name) for name in names)
