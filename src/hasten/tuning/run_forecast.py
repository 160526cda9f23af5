"""What a plan means for a whole run, from what a tune measured anyway: no extra steps are trained.

A run is its start, its steps, what comes between and after them, and the plan's set-up. The plan changes the
steps by the claim, and costs its set-up; the start and what comes between steps are as timed under the plan.
A run is one process: the intervals are for one, not for the mean of many. A slow process is slow in its steps
and between them, so those errors add up; start and set-up err independently, so their squares add up.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, median, stdev

from ..bench.comparing.statistics import mean_interval, t_quantile
from ..records.run_forecast import Assumed, ForecastPart, RunForecast, RunLength, SeenProcess, Span
from ..records.trial import Ratio
from .run_ends import Between, Tail, between_part
from .run_paces import EVEN, Paces
from .run_spans import (
    CONFIDENCE,
    NOTHING,
    SEEN_ONCE,
    around,
    independent,
    less,
    not_below_nothing,
    of_one,
    several,
    together,
)

_BY: Mapping[str, Assumed] = {"loader": "length by loader", "loops": "length by loops"}
UNSEEN = 0.1  # of a run with an unseen part: how much longer it may be
STEPS = 1000  # that are reported if neither run nor epoch is known


@dataclass(frozen=True)
class Slower:
    """Plain steps take ``seconds`` longer ``after`` so many; under the plan they do not."""

    after: int
    seconds: Span

    def part(self, steps: int) -> ForecastPart:
        """In a training of so many steps."""
        count, each = max(0, steps - self.after), self.seconds
        return ForecastPart(
            "later steps", Span(count * each.value, count * each.low, count * each.high), NOTHING
        )


@dataclass(frozen=True)
class Measured:
    """What a tune knows about a run. ``ratio`` is the claim: the plan's time over plain's. ``plain`` and
    ``planned``: the processes of its pairs, in order. ``start_seconds``: of a plain process that started
    alone, to its first step's end. ``between``: what comes between steps, by kind; ``turns_seen``: that is
    complete. ``tail``: None if no process reached the script's end. ``paces``: of later epochs, if the
    processes trained in the first. ``of_stretches``: the claim is for whole stretches of the run, and
    ``ratio`` is for their regular steps, which alone need not gain.
    """

    ratio: Ratio
    plain: Sequence[SeenProcess]
    planned: Sequence[SeenProcess]
    start_seconds: float
    setup_seconds: float
    length: RunLength
    between: Sequence[Between] = ()
    turns_seen: bool = True
    tail: Tail | None = None
    paces: Paces = EVEN
    of_stretches: bool = False
    own_start: float = 0.0  # that ``hasten run`` takes for itself, under a plan with next to nothing in it
    lasting_seconds: float = 0.0  # part of the set-up that only the first run on this machine pays
    slower: Sequence[Slower] = ()

    @property
    def hasten_seconds(self) -> float:
        """That a run under the plan takes before the script begins, and a plain one does not: that, and what
        the plan's own techniques are imported in.
        """
        return self.own_start + max(0.0, _own(self.planned) - _own(self.plain))

    def ratio_of_means(self) -> Ratio:
        """Like the claim, but for mean steps, which a run takes: the claim is for usual ones."""
        plain, planned = (fmean(math.log(one.uneven) for one in side) for side in (self.plain, self.planned))
        times, ratio = math.exp(planned - plain), self.ratio
        return replace(ratio, value=ratio.value * times, low=ratio.low * times, high=ratio.high * times)


def forecast(seen: Measured, tune_seconds: float) -> RunForecast | None:
    """The forecast; None if the claim's interval includes 1, or if fewer than two pairs reported times."""
    if (seen.ratio.high >= 1 and not seen.of_stretches) or min(len(seen.plain), len(seen.planned)) < 2:
        return None
    length = seen.length
    steps = length.steps or length.epoch_steps or STEPS
    whole = length.steps is not None
    of_process, alone = _of_one_process(seen, steps, whole), _alone(seen)
    saved = [_saved_in_process(seen, steps, whole), *(_saved_alone(seen) if whole else ())]
    slower = _start(seen)[1]
    in_run = alone if whole else []
    unseen = not seen.turns_seen or _has_unseen_tail(seen)
    found = RunForecast(
        of="run" if whole else "epoch" if length.epoch_steps else "steps",
        steps=steps,
        epochs=length.epochs,
        before=_whole([p.before for p in of_process], [p.before for p in in_run], unseen),
        after=_whole([p.after for p in of_process], [p.after for p in in_run], unseen),
        saved=independent(saved),
        parts=_told([*in_run[:2], *of_process, *in_run[2:]]),
        once=_told([] if whole else alone),
        slower_start=max(0.0, -slower.value) if whole and slower.high < 0 else 0.0,
        lasting_seconds=seen.lasting_seconds,
        assumed=_assumed(seen, whole),
    )
    return _paying(found, seen, tune_seconds) if found.is_faster else found


def _has_unseen_tail(seen: Measured) -> bool:
    return seen.length.source == "loops" and seen.tail is None


def _told(parts: Sequence[ForecastPart]) -> tuple[ForecastPart, ...]:
    return tuple(part for part in parts if part.before.high or part.after.high)


def _paying(found: RunForecast, seen: Measured, tune_seconds: float) -> RunForecast:
    """``found``, with when the tune pays off. A longer run has the same start, set-up and end."""
    each = _saved_in_process(seen, found.steps, False).value / found.steps
    fixed = seen.hasten_seconds + seen.setup_seconds - _start(seen)[1].value
    fixed -= _difference(seen.tail.part()).value if seen.tail is not None else 0.0
    steps = max(1, math.ceil((tune_seconds + fixed) / each)) if each > 0 else None
    epoch, lasting = seen.length.epoch_steps, seen.lasting_seconds
    return replace(
        found,
        pays_runs=(
            math.ceil((tune_seconds + lasting) / (found.saved.value + lasting)) if found.of == "run" else None
        ),
        pays_epochs=math.ceil(steps / epoch) if steps is not None and epoch else None,
        pays_steps=steps,
    )


def _assumed(seen: Measured, whole: bool) -> tuple[Assumed, ...]:
    found: list[Assumed] = []
    if seen.length.source in _BY:
        found.append(_BY[seen.length.source])
    if seen.length.by_epochs:
        found.append("length by epochs")
    if _has_unseen_tail(seen):
        found.append("tail unseen")
    if not seen.turns_seen:
        found.append("ends unseen")
    between = [one for one in seen.between if not whole or one.in_run != 0]
    if any(sum(map(len, one.plain.draws)) < 2 for one in between):
        found.append("ends seen once")
    if any(one.as_plain for one in between):
        found.append("ends as plain")
    if any(one.plain.others or one.planned.others for one in between):
        found.append("ends of other plans")
    return tuple(found)


# ---- parts
def _of_one_process(seen: Measured, steps: int, whole: bool) -> list[ForecastPart]:
    """The parts in which a slow process is slow."""
    later = [one.part(steps) for one in seen.slower]
    parts = [_steps(seen, steps, whole), *later, between_part(seen.between, steps, whole)]
    return [*parts, seen.tail.part()] if whole and seen.tail is not None else parts


def _saved_in_process(seen: Measured, steps: int, whole: bool) -> Span:
    _, *others = _of_one_process(seen, steps, whole)
    return together([_steps_saved(seen, steps, whole), *map(_difference, others)])


def _steps(seen: Measured, steps: int, whole: bool) -> ForecastPart:
    before, ratio = _plain_steps(seen, steps, whole)
    low, high = _log_errors(seen, ratio)
    value = before.value * ratio.value
    return ForecastPart("steps", before, Span(value, value * math.exp(-low), value * math.exp(high)))


def _steps_saved(seen: Measured, steps: int, whole: bool) -> Span:
    """As certain as the claim, so it is not the difference of the two spans."""
    before, ratio = _plain_steps(seen, steps, whole)
    low, high = _log_errors(seen, ratio)
    least, most = 1 - ratio.value * math.exp(high), 1 - ratio.value * math.exp(-low)
    return Span(
        before.value * (1 - ratio.value),
        (before.low if least > 0 else before.high) * least,
        (before.high if most > 0 else before.low) * most,
    )


def _plain_steps(seen: Measured, steps: int, whole: bool) -> tuple[Span, Ratio]:
    """Plain seconds of the steps, and the plan's time over that."""
    logs = [math.log(one.step_seconds) for one in seen.plain]
    plain, planned = seen.paces.over(steps, whole)
    trained = max(1, steps - whole)  # the first step of a run belongs to its start
    ratio = seen.ratio_of_means()
    ratio = replace(
        ratio,
        value=ratio.value * planned.value / plain,
        low=ratio.low * planned.low / plain,
        high=ratio.high * planned.high / plain,
    )
    return around(plain * trained * math.exp(fmean(logs)), of_one(logs)), ratio


def _log_errors(seen: Measured, ratio: Ratio) -> tuple[float, float]:
    """How far below and above its value the plan's time may be, as logarithms: the ratio is of the mean
    process, and a run is one.
    """
    spread = _of_planned(seen)
    return (
        math.hypot(math.log(ratio.value / ratio.low), spread),
        math.hypot(math.log(ratio.high / ratio.value), spread),
    )


def _of_planned(seen: Measured) -> float:
    """How far processes under the plan lie from their mean, as logarithms: the claim is for that mean."""
    logs = [math.log(one.step_seconds) for one in seen.planned]
    return t_quantile(CONFIDENCE, len(logs) - 1) * stdev(logs)


def _alone(seen: Measured) -> list[ForecastPart]:
    """What comes once in a run, and is slow or fast independently."""
    command = ForecastPart("hasten", NOTHING, around(seen.hasten_seconds, SEEN_ONCE))
    return [command, _start(seen)[0], ForecastPart("set-up", NOTHING, _set_up(seen))]


def _saved_alone(seen: Measured) -> list[Span]:
    command, _, set_up = _alone(seen)
    return [_start(seen)[1], less(NOTHING, command.after), less(NOTHING, set_up.after)]


def _start(seen: Measured) -> tuple[ForecastPart, Span]:
    """Time to steady steps, and what is saved: below 0 if processes under the plan start more slowly.

    Processes of a pair start side by side, so each takes longer than alone: their ratio counts.
    """
    plain, planned = ([one.script_start for one in side] for side in (seen.plain, seen.planned))
    leads = [several([(one.lead_seconds,) for one in side], 1.0) for side in (seen.plain, seen.planned)]
    if min(*plain, *planned) <= 0:
        before = after = around(max(0.0, seen.start_seconds - _own(seen.plain)), SEEN_ONCE)
        saved = NOTHING
    else:
        logs = [math.log(one) for one in plain]
        alone = seen.start_seconds - _own(seen.plain)  # the very first one reads files from disk
        usual = min(alone, median(plain)) if alone > 0 else median(plain)
        before = around(usual, of_one(logs))
        ratio = mean_interval([math.log(b / a) for a, b in zip(plain, planned, strict=True)])
        assert ratio is not None
        half = math.hypot(of_one(logs), ratio.high - ratio.value)
        after = around(usual * math.exp(ratio.value), half)
        saved = Span(*(usual * (1 - math.exp(one)) for one in (ratio.value, ratio.high, ratio.low)))
    before, after = (
        not_below_nothing(independent(both)) for both in zip((before, after), leads, strict=True)
    )
    err, value = independent([saved, less(*leads)]), before.value - after.value
    saved = Span(value, value - err.value + err.low, value - err.value + err.high)
    return ForecastPart("start", before, after), saved


def _own(processes: Sequence[SeenProcess]) -> float:
    return median(one.own_seconds for one in processes) if processes else 0.0


def _set_up(seen: Measured) -> Span:
    """What lasts was made by one process, and counts for the first run; what one process of the tune has made
    for the others counts for each.
    """
    shared = max((one.shared_seconds for one in seen.planned), default=0.0)
    made = around(seen.lasting_seconds + shared, SEEN_ONCE)
    value = max(0.0, seen.setup_seconds - made.value)
    pairs = zip(seen.plain, seen.planned, strict=True)
    once = several([(max(0.0, _own_set_up(b) - _own_set_up(a)),) for a, b in pairs], 1.0)
    low, high = (value - once.value + one for one in (once.low, once.high))
    return independent([Span(value, max(0.0, low), high), made])


def _own_set_up(one: SeenProcess) -> float:
    return max(0.0, one.setup_seconds - one.shared_seconds)


# ---- all of them
def _whole(of_process: Sequence[Span], alone: Sequence[Span], unseen: bool) -> Span:
    """All parts of a run together; ``unseen``: except for one that was not seen."""
    found = independent([together(of_process), *alone])
    longer = UNSEEN * found.value if unseen else 0.0
    return Span(found.value, max(0.0, found.low), found.high + longer)


def _difference(part: ForecastPart) -> Span:
    return less(part.before, part.after)
