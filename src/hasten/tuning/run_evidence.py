"""What a tune has found, told of the user's whole run."""

from __future__ import annotations

from dataclasses import replace

from ..bench.comparing.epoch_ends import EpochEnds
from ..records.observation import Observation
from ..records.plan import BASELINE, Plan
from ..records.result import TuneResult
from ..records.run_forecast import RunForecast
from ..records.trial import Trial
from ..records.whole_run import WatchedRun
from .run_forecast import Ends, Measured, forecast
from .run_length import length_of


def forecast_of(
    result: TuneResult, trial: Trial | None, ends: EpochEnds, command_seconds: float = 0.0
) -> RunForecast | None:
    """``trial``: the confirmation. ``command_seconds``: what our own command took before it began, which
    ``hasten run`` takes, too. None where nothing is claimed, or the processes told too little.
    """
    seen = result.observation
    ratio = result.steps_ratio if result.parts else result.ratio
    if ratio is None or seen is None or trial is None:
        return None
    if not result.nproc:  # of ranks that the script starts by itself, one was watched
        ends = with_observed(ends, seen)
    length = length_of(seen, ends.script_steps, ends.every, result.nproc or 1)
    plain, planned, every = Ends.under(BASELINE, ends.seen), Ends.under(result.plan, ends.seen), ends.every
    rest = None if ends.rhythm.restarts else rest_of(seen)
    if every is None and rest is not None and length.steps:
        plain, planned, every = Ends(first=(rest,)), Ends(), length.steps
    found = forecast(
        Measured(
            ratio=ratio,
            of_stretches=bool(result.parts),
            plain=trial.processes_a,
            planned=trial.processes_b,
            start_seconds=seen.start_seconds,
            setup_seconds=result.setup_seconds,
            length=length,
            ends_plain=plain,
            ends_planned=planned,
            ends_every=every,
            command_seconds=command_seconds,
        ),
        result.tune_seconds,
    )
    if found is not None and rehearses(result.plan):
        return replace(found, assumed=(*found.assumed, "rehearsed"))
    return found


def rehearses(plan: Plan) -> bool:
    """Whether the first run under the plan begins with a rehearsal, which later ones remember."""
    return "processes" in plan.techniques


def with_observed(ends: EpochEnds, seen: Observation) -> EpochEnds:
    """With those that were watched before anything was compared."""
    found = EpochEnds(ends.rhythm)
    found.note(BASELINE, seen.steps, seen.warmup_steps)
    run = seen.run
    every_step = ends.rhythm.restarts > 0  # begins a loader: what that takes is in the step
    if not (found.seen or every_step) and run is not None and run.epochs and not run.ended:
        each = sum(_each(run, name) for name in _BETWEEN)
        found.note_ends(BASELINE, each, run.epochs, run.part("steps").count)
    return ends.with_these(found)


_BETWEEN = ("first batches", "epoch turns", "evaluation", "saving")


def _each(run: WatchedRun, name: str) -> float:
    """Seconds of it in an epoch. Of first batches, that of the epoch that goes on is one more."""
    part = run.part(name)
    return part.seconds / max(run.epochs, part.count if name == "first batches" else 0)


def rest_of(seen: Observation) -> float | None:
    """Seconds of a plain run besides its start and steps; None where none was watched to its end."""
    run = seen.run
    if run is None or not run.ended:
        return None
    rest = run.seconds - sum(run.part(name).seconds for name in ("start", "steps", "set-up"))
    return max(0.0, rest)
