"""Reports on a terminal, or as plain text elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ..records.cause import Cause
from ..records.observation import Loader, Observation
from ..records.phases import median_phases, phase_share, samples_per_step, step_seconds
from ..records.result import Tried, TuneResult
from ..units import counted, seconds_words
from .caution import caution_words
from .conclusion import conclusion_words, looks_words
from .console import COMMAND, print_lines
from .forecast import forecast_lines
from .guard import accuracy_words, advice
from .not_tried import not_tried_lines
from .reasons import reason_words
from .threads import thread_lines
from .whole_run import mean_lines, print_run, print_start
from .words import (
    earlier_words,
    gpu_memory_words,
    lasting_words,
    measured_words,
    optimizer_lines,
    parameters_words,
    parts_words,
    rate_words,
    ratio_words,
    step_words,
    technique_words,
    trainings_words,
    tried_words,
    with_words,
)

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

_SETUP_WORTH_A_WORD = 0.1  # seconds
_UNDISTURBED = 0.8  # of a median step that the medians of its parts must add up to


def print_tune(result: TuneResult, console: Console, script: str, plan_path: Path) -> None:
    """What was tried, the results, whether accuracy held, and the next command to type. ``script``: with its
    arguments, for a shell.
    """
    console.print()
    if result.baseline_step_seconds is not None:
        rate = result.baseline_samples_per_second
        where = " in each rank" if result.nproc is not None else ""
        samples = f"{rate_words(rate, 1.0)}{where}" if rate else ""
        console.print(f"Plain, a step takes {seconds_words(result.baseline_step_seconds)}{samples}.")
    if result.observation is not None:
        console.print(f"  ({step_words(result.observation)})")
        print_start(result.observation, console)
    for cause in result.causes:
        console.print(f"  {cause.told()}")
    if result.tried:
        console.print()
        console.print(_tried_table(result))
    for line in _earlier_lines(result.tried):
        console.print(line)
    for line in thread_lines(result.threads) if result.threads is not None else []:
        console.print(line)
    tried = {row.technique for row in result.tried} | set(result.plan.techniques)
    print_lines(console, not_tried_lines(result.refused, script, tried))
    console.print()
    console.print(_verdict(result), style="bold")
    for line in forecast_lines(result.forecast, result.tune_seconds) if result.forecast is not None else []:
        console.print(line)
    print_lines(console, _details(result))
    console.print()
    print_lines(console, _next(result, script, plan_path))


def _earlier_lines(tried: Sequence[Tried]) -> list[str]:
    """How much of the search comes from earlier tunes."""
    count = sum(row.earlier for row in tried)
    if not count:
        return []
    return [
        f"{count} of {len(tried)} rows come from earlier tunes of the same training, within a day; the claim "
        "itself is checked and confirmed again.",
        "To measure everything again: hasten tune --fresh",
    ]


_TRIED_WIDTH, _WITH_WIDTH = 24, 14  # characters: long text is folded to keep results readable


def _batches_words(loader: Loader) -> str:
    return f"of {loader.batch_size}" if loader.batch_size is not None else "as the script makes them"


def _tried_table(result: TuneResult) -> Table:
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    table.add_column("tried", overflow="fold", max_width=_TRIED_WIDTH)
    for heading in ("times faster (95%)", "measured"):
        table.add_column(heading, no_wrap=True)
    against = [with_words(row.against.without(row.technique)) for row in result.tried]
    width = max(_WITH_WIDTH, *(len(word) for words in against for word in words.split()))  # no name is broken
    table.add_column("with", overflow="fold", min_width=min(width, _TRIED_WIDTH), max_width=width)
    table.add_column("result", overflow="fold")
    for row, along in zip(result.tried, against, strict=True):
        table.add_row(
            tried_words(row),
            ratio_words(row.ratio),
            measured_words(row.ratio),
            along,
            f"{'kept: ' if row.kept else ''}{reason_words(row.reason)}{earlier_words(row)}",
        )
    return table


def _verdict(result: TuneResult) -> str:
    if result.outcome == "not-checked":
        return f"Nothing is claimed: {conclusion_words(result)}."
    if result.speedup is None:
        return f"No gain found: {conclusion_words(result)}."
    speedup = result.speedup
    if result.only_starts_sooner:
        return (
            f"It starts sooner: a run as long as this is {speedup.value:.2f} times faster ({speedup.low:.2f} "
            f"to {speedup.high:.2f}, by the starts and steps of {speedup.count} pairs of fresh processes)."
        )
    looks = f"; {looks_words(result.looks)}" if result.looks is not None else ""
    included = f", {parts_words(result.parts)} included," if result.parts else ""
    return (
        f"The whole plan trains{included} {speedup.value:.2f} times faster "
        f"({speedup.low:.2f} to {speedup.high:.2f}, {speedup.count} pairs of fresh processes{looks})."
    )


def _details(result: TuneResult) -> list[str]:
    lines = []
    if result.plan:
        lines.append(f"Plan: {', '.join(technique_words(*item) for item in result.plan.techniques.items())}.")
    if result.only_starts_sooner:
        steps = ratio_words(result.steps_ratio)
        lines.append(f"Steps gain nothing that is certain ({steps}), so a longer run gains less, or nothing.")
    elif result.parts:
        alone = f"; regular steps alone: {ratio_words(result.steps_ratio)}" if result.steps_ratio else ""
        lines.append(f"That is over whole stretches of the run, with everything in them{alone}.")
    if result.shortened < 1:
        lines.append(
            f"Epochs were shortened for that: each pass over a loader, of training and of evaluation alike, "
            f"gave {result.shortened:.1%} of its batches. This assumes that a whole epoch gains as much."
        )
    if result.breakeven_steps is not None and result.setup_seconds >= _SETUP_WORTH_A_WORD:
        lines.append(
            f"It pays {seconds_words(result.setup_seconds)} once to set up, earned back after "
            f"{counted(result.breakeven_steps, 'step')}{lasting_words(result.lasting_seconds)}."
        )
        if result.script_steps is not None and result.script_steps < result.breakeven_steps:
            lines.append(
                f"The script takes only {counted(result.script_steps, 'step')}, too few for that: train as "
                "before or longer."
            )
    if result.guard is not None:
        lines.append(accuracy_words(result.guard))
    if result.protection == "off":
        lines.append(
            "Protection was off (--allow-writes): the script may have written files during measurement."
        )
    if result.protection == "landlock":
        lines.append(
            "The script could not write files during measurement (Landlock): the time it "
            "needs to save files is not in the numbers."
        )
    lines += [f"Warning: {caution_words(caution)}" for caution in result.warnings]
    lines.append(
        f"Tuned in {result.tune_seconds:.0f} s on {result.machine}, torch {result.versions['torch']}."
    )
    return lines


def _next(result: TuneResult, script: str, plan_path: Path) -> list[str]:
    ranks = result.rank_options
    run = f"{COMMAND}run {ranks}{script}"
    if result.plan and result.guard is not None and result.guard.changes:
        return [
            f"The plan is in {plan_path}. First check that model quality is held:",
            f"{COMMAND}verify {ranks}{script}",
            "Then train under it:",
            run,
        ]
    if result.plan:
        return [f"The plan is in {plan_path}. Train under it:", run]
    if result.outcome == "not-checked" and result.guard is not None:
        return [f"No plan is confirmed. {advice(result.guard.why_not)}"]
    return ["Train as before; nothing tried makes it faster here."]


def print_profile(
    observation: Observation,
    causes: list[Cause],
    console: Console,
    nproc: int | None = None,
    bound: float | None = None,
) -> None:
    """Where the time of a step and of the run goes, and what was seen. ``nproc``: number of ranks;
    rank 0 was observed. ``bound`` as in ``print_run``.
    """
    from rich.table import Table

    step, samples = step_seconds(observation), samples_per_step(observation)
    rate = rate_words(samples, step)
    if nproc is not None:
        rate += f"{' in each rank' if rate else ''} (rank 0 of {nproc})"
    console.print(
        f"\n{counted(len(observation.steps), 'step')} after "
        f"{counted(observation.warmup_steps, 'warm-up step')}: {seconds_words(step)} a step{rate}"
    )
    for line in mean_lines(observation):
        console.print(line)
    console.print(f"({step_words(observation)})")
    table = Table(box=None, pad_edge=False, show_header=False)
    phases = median_phases(observation)
    for phase, seconds in phases.items():
        share = phase_share(observation, phase)
        table.add_row(f"  {phase}", seconds_words(seconds), f"{share:.0%}", "#" * round(40 * share))
    console.print(table)
    together = sum(phases.values())
    if together < _UNDISTURBED * step:
        console.print(
            f"  Each part is a median; together they are {seconds_words(together)}. Most steps took "
            "longer, now in one part, now in another. Are other programs using the machine?"
        )
    print_run(observation, console, bound)
    if len(observation.trainings) > 1:
        console.print(trainings_words(observation))
    for root in observation.roots:
        console.print(f"trains {root.name}: {parameters_words(root)}, {', '.join(root.dtypes)}")
    if observation.autocast:
        console.print(f"computes under the script's own autocast: {', '.join(observation.autocast)}")
    for loader in observation.loaders:
        role = "training" if loader.training else "other"
        size = counted(loader.samples, "sample") if loader.samples is not None else "a stream"
        console.print(
            f"reads {loader.dataset} ({role}): {size}, batches {_batches_words(loader)}, "
            f"{counted(loader.workers, 'worker')}"
        )
    for line in optimizer_lines(observation.optimizers):
        console.print(line)
    for memory in observation.gpu_memory:
        console.print(gpu_memory_words(memory))
    for name, value in observation.metrics.items():
        console.print(f"reports its {name}: {value:g}")
    for obstacle in observation.obstacles:
        console.print(f"cannot be tuned: {obstacle}")
    if causes:
        console.print("Why it takes so long:")
    for cause in causes:
        remedies = f": try {', '.join(cause.techniques)}" if cause.techniques else ""
        console.print(f"  {cause.told(remedies)}")
