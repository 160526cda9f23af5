"""Where the wall clock of a whole run goes, in words and as a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..records.observation import Observation
from ..records.phases import step_seconds
from ..records.whole_run import ENDLESS_STEPS, Breakdown, Part, WatchedRun, breakdown_of, seconds_in_all
from ..units import counted, seconds_words

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

_COUNTED = {  # part: one of them, several
    "steps": ("step", "steps"),
    "first batches": ("epoch begun", "epochs begun"),
    "evaluation": ("loop", "loops"),
    "saving": ("file", "files"),
    "output": ("call", "calls"),
    "garbage": ("collection", "collections"),
}
_SHOWN = 0.005  # smallest share of the breakdown that is shown
_FAR_ABOVE = 1.5  # times its median, from which on the mean of a step is told as well
_ALWAYS_SHOWN = ("start", "steps", "first batches", "evaluation", "saving")  # if there are any
_PER_EPOCH = "The number of epochs is not known, so times are for those seen: --whole watches to the end."
_WORKERS_STAY = "The loader's worker processes start in the first epoch only: later epochs begin sooner."
_WATCH_ON = "--seconds N or --whole watches longer"


def print_run(observation: Observation, console: Console, bound: float | None = None) -> None:
    """Print nothing if the run was not watched. ``bound``: seconds for which the end of an epoch was waited
    for, at most.
    """
    run = observation.run
    if run is None:
        return
    breakdown = breakdown_of(run)
    console.print(_heading(run, breakdown))
    if breakdown.basis != "steps":
        console.print(_table(breakdown, run.epochs if breakdown.basis == "epochs" else 1))
    for line in _notes(observation, run, breakdown, bound):
        console.print(f"  {line}")
    if run.failure:
        console.print(f"Warning: after {counted(run.part('steps').count, 'step')} {run.failure}.")


def mean_lines(observation: Observation) -> list[str]:
    """That a step takes longer on average than its median says, where the run was seen to its end, or an
    epoch to its; nothing if it does not.
    """
    breakdown = breakdown_of(observation.run) if observation.run is not None else None
    steps = breakdown.part("steps") if breakdown is not None else None
    if breakdown is None or steps is None or breakdown.basis == "steps" or not steps.count:
        return []
    usual, mean = step_seconds(observation), steps.seconds / steps.count
    if mean <= _FAR_ABOVE * usual:
        return []
    over = "the whole run" if breakdown.basis == "run" else "an epoch"
    return [
        f"That is the median of these steps; over {over} the mean is {seconds_words(mean)} a step: some take "
        "much longer, as while worker processes start or other programs use the machine."
    ]


def print_start(observation: Observation, console: Console) -> None:
    """How long a run took before its first step, if it was watched."""
    if observation.run is not None:
        console.print(f"  (a run takes {_seconds(observation.run, 'start')} before its first step)")


def _seconds(run: WatchedRun, part: str) -> str:
    return seconds_words(run.part(part).seconds)


def _heading(run: WatchedRun, breakdown: Breakdown) -> str:
    if breakdown.basis == "run":
        return f"The whole run took {seconds_words(run.seconds)}:"
    if breakdown.basis == "epochs":
        mean = f", the mean of {run.epochs}" if run.epochs > 1 else ""
        return f"An epoch takes {seconds_words(breakdown.seconds / run.epochs)}{mean}:"
    return f"{seconds_words(run.seconds)} of the run were watched, up to its step {run.part('steps').count}:"


def _table(breakdown: Breakdown, times: int) -> Table:
    """The mean over this many ``times``."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, show_header=False)
    for _ in range(4):
        table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for part in breakdown.parts:
        share = breakdown.share(part.name)
        if share >= _SHOWN or (part.count and part.name in _ALWAYS_SHOWN):
            bar = "#" * round(40 * share)
            seconds = seconds_words(part.seconds / times)
            table.add_row(f"  {part.name}", seconds, f"{share:.0%}", bar, _how(part, times))
    return table


def _how(part: Part, times: int) -> str:
    """How often, how many samples, and where."""
    words = []
    if part.name in _COUNTED and part.count:
        one, several = _COUNTED[part.name]
        count = part.count / times
        words.append(f"{_number(count)} {one if count == 1 else several}")
    if part.samples:
        samples = part.samples / times
        words.append(f"{_number(samples)} {'sample' if samples == 1 else 'samples'}")
    if part.where:
        words.append(", ".join(part.where))
    return "; ".join(words)


def _number(value: float) -> str:
    return f"{value:,.0f}" if value == int(value) or value >= 10 else f"{value:.1f}"


def _notes(observation: Observation, run: WatchedRun, breakdown: Breakdown, bound: float | None) -> list[str]:
    """What the times cover, what they leave out, and how to see more."""
    unseen = [] if breakdown.part("evaluation").count else ["No evaluation was seen."]
    if breakdown.basis == "run":
        return unseen
    once = [f"The run's start took {_seconds(run, 'start')}, once."]
    if breakdown.basis == "epochs":
        stay = [_WORKERS_STAY] if observation.first_epoch_alone else []
        return [*unseen, *once, *stay, *(_run_ahead(run) or [_PER_EPOCH])]
    waited = (
        []
        if bound is None
        else [f"hasten waits for the end of an epoch if it comes within {seconds_words(bound)}."]
    )
    return [
        *once,
        *_epoch_ahead(observation, run),
        *_run_ahead(run),
        _not_come_to(run),
        *waited,
    ]


def _run_ahead(run: WatchedRun) -> list[str]:
    """How long the whole run will take, if its loops say how many steps there are."""
    seconds = seconds_in_all(run)
    if run.planned_steps is None or seconds is None:
        return []
    return [
        f"The loops around a step go on to step {run.planned_steps:,}: a run takes about "
        f"{seconds_words(seconds)} if all of it is like what was seen. --whole watches to the end."
    ]


def _epoch_ahead(observation: Observation, run: WatchedRun) -> list[str]:
    """How long an epoch's steps will take, if its length is known."""
    if run.epoch_steps is None:
        return ["No loader reports how long an epoch is."]
    if run.epoch_steps >= ENDLESS_STEPS:
        return ["The loader goes on until the script stops."]
    seconds = seconds_words(run.epoch_steps * step_seconds(observation))
    steps = counted(run.epoch_steps, "step")
    if run.epoch_seen:
        return [f"The epochs that ended had up to {steps}: about {seconds} of steps."]
    return [f"The loader says that an epoch has {steps}: about {seconds} of steps."]


def _not_come_to(run: WatchedRun) -> str:
    seen = [name for name in ("evaluation", "saving") if run.part(name).count]
    missing = [name for name in ("evaluation", "saving") if name not in seen]
    count = run.part("steps").count
    steps = f"the first {counted(count, 'step')}" if count != 1 else "the first step"
    if not missing:
        return f"Evaluation and saving were seen in {steps}; how often they come is not known: {_WATCH_ON}."
    also = f" ({seen[0]} was)" if seen else ""
    return f"No {' or '.join(missing)}, and no end of an epoch, was seen in {steps}{also}: {_WATCH_ON}."


def run_json(run: WatchedRun | None) -> dict[str, Any] | None:
    """``breakdown``: what shares refer to; ``basis`` as in ``records.whole_run.Breakdown``. Seconds of a
    breakdown cover all its epochs together.
    """
    if run is None:
        return None
    breakdown = breakdown_of(run)
    return {
        "seconds": run.seconds,
        "ended": run.ended,
        "failure": run.failure or None,
        "epochs": run.epochs,
        "epoch_steps": run.epoch_steps,
        "epoch_seen": run.epoch_seen,
        "planned_steps": run.planned_steps,
        "parts": [_part_json(part, part.seconds / run.seconds if run.seconds else 0.0) for part in run.parts],
        "breakdown": {
            "basis": breakdown.basis,
            "seconds": breakdown.seconds,
            "parts": [_part_json(part, breakdown.share(part.name)) for part in breakdown.parts],
        },
    }


def _part_json(part: Part, share: float) -> dict[str, Any]:
    return {
        "name": part.name,
        "seconds": part.seconds,
        "share": share,
        "count": part.count,
        "each": list(part.each),
        "samples": part.samples,
        "where": list(part.where),
    }
