"""A tune's result, applied to the user's whole run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from ..bench.comparing.epoch_ends import EpochEnds, Kind
from ..records.observation import Observation
from ..records.plan import BASELINE, Plan
from ..records.result import TuneResult
from ..records.run_forecast import Assumed, RunForecast, RunLength, Span
from ..records.trial import Ratio, Trial
from ..records.whole_run import WatchedRun
from .conclusion import Found, conclude
from .run_ends import Between, Ends, Tail, between_part
from .run_forecast import Measured, Slower, forecast
from .run_length import length_of
from .run_paces import EVEN, Paces, paces_of


def with_forecast(found: Found, result: TuneResult, own_start: Callable[[], float | None]) -> TuneResult:
    """``result`` with what it means for a run. Without its plan where a run under it is sure to take longer.
    ``own_start``: as in ``forecast_of``, or None.
    """
    if found.ends is None or not result.plan:
        return result
    told = forecast_of(result, found.trial, found.ends, own_start() or 0.0)
    if told is None or not told.is_slower:
        return replace(result, forecast=told)
    return replace(
        conclude(found, longer=told),
        tune_seconds=result.tune_seconds,
        nproc=result.nproc,
        backend=result.backend,
        sources=result.sources,
    )


def forecast_of(
    result: TuneResult, trial: Trial | None, ends: EpochEnds, own_start: float = 0.0
) -> RunForecast | None:
    """``trial``: the confirmation. ``own_start``: seconds that ``hasten run`` takes for itself. None if
    nothing is claimed, or the processes reported too little.
    """
    seen = result.observation
    ratio = result.steps_ratio if result.parts else result.ratio
    if ratio is None or seen is None or trial is None:
        return None
    if not result.nproc:  # only one of the ranks that the script starts itself was watched
        ends = with_observed(ends, seen)
    steps = None if ends.varies else ends.script_steps
    length = length_of(seen, steps, ends.turns_every, result.nproc or 1, ends.planned_steps)
    between, slower = between_of(ends, result.plan, length.steps), slower_of(result, trial)
    found = forecast(
        Measured(
            ratio=ratio,
            of_stretches=bool(result.parts),
            plain=trial.processes_a,
            planned=trial.processes_b,
            start_seconds=seen.start_seconds,
            setup_seconds=result.setup_seconds,
            lasting_seconds=result.lasting_seconds,
            length=length,
            between=tuple(between.values()),
            turns_seen=turns_seen(ends, length),
            tail=tail_of(ends, result.plan, between) if length.steps else None,
            paces=EVEN if slower else later_paces(ends, result.plan, trial, ratio),
            own_start=own_start,
            slower=slower,
        ),
        result.tune_seconds,
    )
    more: list[Assumed] = ["epochs cut short"] if result.shortened < 1 else []
    more += ["rehearsed"] if rehearses(result.plan) else []
    more += ["same samples"] if keeps_unseen(result.plan, seen) else []
    if found is None:
        return None
    if not ends.rhythm.has_epochs:
        found = _without_epochs(found)
    if result.only_starts_sooner:  # no longer run pays more
        found = replace(found, pays_epochs=None, pays_steps=None)
    return replace(found, assumed=(*found.assumed, *more))


def _without_epochs(found: RunForecast) -> RunForecast:
    """As a training without epochs is spoken of."""
    parts = [replace(part, name="rollouts") if part.name == "epoch ends" else part for part in found.parts]
    assumed: list[Assumed] = ["rare unseen" if one == "ends unseen" else one for one in found.assumed]
    return replace(found, parts=tuple(parts), assumed=tuple(assumed))


def between_of(ends: EpochEnds, plan: Plan, steps: int | None) -> dict[Kind, Between]:
    """What comes between steps, by kind. If what comes after the last step is unknown, it is taken for one
    more of each kind that was seen.
    """
    found = {}
    for kind in ends.kinds:
        seen = [one for one in ends.seen if one.kind == kind]
        plain, planned = Ends.under(BASELINE, seen), Ends.under(plan, seen)
        times = ends.times(kind, steps) if steps is not None else None
        if times and not ends.tails:
            times += 1
        if plain.draws:
            found[kind] = Between(plain, planned, ends.every(kind), times)
    return found


def around_steps(seen: Observation, ends: EpochEnds) -> tuple[int, float] | None:
    """The steps of a plain run, and the seconds of what comes between and after them, as far as it was seen.
    None where the length of a run is not known, or the end of an epoch is still to come.
    """
    ends = with_observed(ends, seen)
    steps = None if ends.varies else ends.script_steps
    length = length_of(seen, steps, ends.turns_every, planned=ends.planned_steps)
    if length.steps is None or (length.epoch_steps is not None and not turns_seen(ends, length)):
        return None
    between = between_of(ends, BASELINE, length.steps)
    tail = tail_of(ends, BASELINE, between)
    parts = [between_part(tuple(between.values()), length.steps, True)]
    parts += [tail.part()] if tail is not None else []
    return length.steps, sum(part.before.value for part in parts)


def turns_seen(ends: EpochEnds, length: RunLength) -> bool:
    """Whether everything between steps was seen: an evaluation within an epoch is not its end."""
    if length.steps is not None and ends.reach >= length.steps:
        return True
    if length.epoch_steps is not None:
        return ends.reach > length.epoch_steps
    return bool(ends.kinds)


def tail_of(ends: EpochEnds, plan: Plan, between: Mapping[Kind, Between]) -> Tail | None:
    """What comes after the last step; None if no process got there. An evaluation in it gains what
    others do.
    """
    if not ends.tails:
        return None
    evaluated = any(tail.kind.evaluated for tail in ends.tails)
    evaluations = [one for kind, one in between.items() if evaluated and kind.evaluated and one.planned.later]
    saved = max((one.plain.each - one.planned.each for one in evaluations), default=0.0)
    return Tail(Ends.under(BASELINE, ends.tails), Ends.under(plan, ends.tails), saved)


def slower_of(result: TuneResult, trial: Trial) -> tuple[Slower, ...]:
    """What the plan saves in later steps alone, where the confirmation, ``trial``, timed earlier ones."""
    last = {row.technique: row for row in result.tried if row.reason.late and row.ratio is not None}
    timed = max((one.steps for one in (*trial.processes_a, *trial.processes_b)), default=0)
    found = []
    for name, row in last.items():
        if timed > row.reason.late:
            continue
        if name in result.plan.techniques and row.ratio is not None and row.against_seconds is not None:
            shares = (1 - row.ratio.value, 1 - row.ratio.high, 1 - row.ratio.low)
            seconds = Span(*(max(0.0, row.against_seconds * share) for share in shares))
            found.append(Slower(row.reason.late, seconds))
    return tuple(found)


def later_paces(ends: EpochEnds, plan: Plan, trial: Trial, ratio: Ratio) -> Paces:
    """The paces of later epochs, if the confirmation trained in the first."""
    first = ends.rhythm.epoch_steps or ends.turns_every
    if first is None or any(one.steps > first for one in (*trial.processes_a, *trial.processes_b)):
        return EVEN
    return paces_of(round(first), ends.paces(BASELINE), ends.paces(plan), ratio.value)


def rehearses(plan: Plan) -> bool:
    """Whether the first run under the plan starts with a rehearsal, which later ones reuse."""
    return "processes" in plan.techniques


def keeps_unseen(plan: Plan, seen: Observation) -> bool:
    """Whether samples are kept for later epochs, and none was seen to begin: the script may change them."""
    kept = not plan.techniques.keys().isdisjoint(("dataset_in_ram", "batched_fetch", "sample_store"))
    made = any(not loader.in_memory for loader in seen.training_loaders)
    return kept and made and (seen.run is None or not seen.run.epochs)


def with_observed(ends: EpochEnds, seen: Observation) -> EpochEnds:
    """``ends``, with those that were watched before anything was compared."""
    found = EpochEnds(ends.rhythm)
    found.note(BASELINE, seen.steps, seen.warmup_steps)
    run = seen.run
    every_step = ends.rhythm.restarts > 0  # starts a loader: its time is in the step
    if not (found.seen or every_step) and run is not None and run.epochs and not run.ended:
        each = sum(_each(run, name) for name in _BETWEEN)
        found.note_ends(BASELINE, each, run.epochs, run.part("steps").count)
    found.note_tail(BASELINE, seen.rest)
    return ends.with_these(found)


_BETWEEN = ("first batches", "epoch turns", "evaluation", "saving")


def _each(run: WatchedRun, name: str) -> float:
    """Seconds of it in an epoch. First batches count one more: the current epoch's."""
    part = run.part(name)
    return part.seconds / max(run.epochs, part.count if name == "first batches" else 0)
