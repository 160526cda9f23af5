"""The report of ``hasten verify``."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING

from ..records.quality import Point, QualityVerdict, Reached, WholeRun
from ..records.trial import Ratio
from ..units import seconds_words
from .caution import caution_words
from .words import ratio_words, technique_words

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table


def print_verify(verdict: QualityVerdict, console: Console) -> None:
    """Every pair of runs, the verdict, and what it is based on."""
    console.print()
    if verdict.outcome != "failed":
        console.print(_runs_table(verdict))
        console.print()
    console.print(_headline(verdict), style="bold")
    for line in _details(verdict):
        console.print(line)


def _runs_table(verdict: QualityVerdict) -> Table:
    from rich.table import Table

    name = verdict.metric.name
    table = Table(box=None, pad_edge=False)
    for heading in (
        "seed", f"{name}, plain", "under the plan", "difference", "whole run, plain", "under the plan",
    ):  # fmt: skip
        table.add_column(heading, no_wrap=True)
    for plain, planned in _pairs(verdict):
        before, after = (run.courses[name][-1].value for run in (plain, planned))
        table.add_row(
            str(plain.seed),
            _number(before),
            _number(after),
            f"{after - before:+.4g}",
            seconds_words(plain.seconds),
            seconds_words(planned.seconds),
        )
    return table


def _pairs(verdict: QualityVerdict) -> list[tuple[WholeRun, WholeRun]]:
    by_key = {(run.arm, run.seed): run for run in verdict.runs}
    return [(run, by_key["plan", seed]) for (arm, seed), run in by_key.items() if arm == "baseline"]


def _headline(verdict: QualityVerdict) -> str:
    if verdict.outcome == "failed":
        return f"Failed: {verdict.reason}."
    if verdict.difference is None:
        held = verdict.outcome == "held"
        return f"{'Quality is held' if held else 'Cannot tell whether quality is held'}: {verdict.reason}."
    difference = verdict.difference
    found = (
        f"{verdict.metric.name} {difference.value:+.3g} under the plan "
        f"({difference.low:+.3g} to {difference.high:+.3g} at 95%, {difference.count} seeds)"
    )
    if verdict.outcome == "held":
        return f"Quality is held: {found}."
    if verdict.outcome == "lost":
        return f"Quality is lost: {found}."
    return f"Cannot tell whether quality is held: {found}."


def _details(verdict: QualityVerdict) -> list[str]:
    lines = [_metric_words(verdict)]
    if verdict.outcome == "cannot tell" and verdict.difference is not None:
        lines.append(_more_seeds(verdict))
    if verdict.wall is not None:
        lines.append(f"A whole run, start and evaluation included: {_speed_words(verdict.wall)}.")
    if verdict.reached is not None:
        lines += _reached_words(verdict.metric.name, verdict.reached)
    if verdict.plan:
        techniques = ", ".join(technique_words(*item) for item in verdict.plan.techniques.items())
        lines.append(f"Plan: {techniques}.")
    lines += [f"About the plan: {remark}." for remark in verdict.remarks]
    if verdict.protection == "off":
        lines.append("Protection was off (--allow-writes): the script may have written files in each run.")
    if verdict.protection == "landlock":
        lines.append("Writing files was denied (Landlock): time to save files is not counted.")
    lines += [f"Warning: {caution_words(caution)}" for caution in verdict.warnings]
    lines.append(f"Output of the runs, and all values: {verdict.folder}")
    return lines


def _metric_words(verdict: QualityVerdict) -> str:
    metric = verdict.metric
    better = "lower" if metric.lower_is_better else "higher"
    source = f"what {metric.pattern!r} matches in its output" if metric.pattern else "reported by the script"
    text = f"Quality is {metric.name}, {source}; {better} is better"
    if verdict.allowed is None or verdict.baseline is None:
        return f"{text}."
    share = ""
    if verdict.tolerance.relative:
        share = f" ({100 * verdict.tolerance.amount:g}% of the baseline's {_number(verdict.baseline)})"
    return f"{text}, and up to {verdict.allowed:.3g}{share} worse counts as held."


def _more_seeds(verdict: QualityVerdict) -> str:
    if verdict.seeds_enough is None:
        return "More than a thousand seeds would be needed to tell: perhaps use a larger --tolerance."
    return (
        f"If mean and spread stay the same, about {verdict.seeds_enough} seeds would probably be enough: "
        f"--seeds {verdict.seeds_enough}"
    )


def _reached_words(name: str, reached: Reached) -> list[str]:
    quality = f"{name} {_number(reached.quality)} (the baseline's final value, its median over seeds)"
    arms = {"plain": reached.baseline, "under the plan": reached.plan}
    came = {arm: [point for point in points if point is not None] for arm, points in arms.items()}
    times = ", ".join(f"{_median_words(points)} {arm}" for arm, points in came.items() if points)
    lines = [f"{quality} is first reached after {times}."] if times else []
    if reached.seconds is not None:
        count = reached.seconds.count
        steps = f"; by steps: {_speed_words(reached.steps)}" if reached.steps is not None else ""
        lines.append(f"  Over the {count} seeds where both reach it: {_speed_words(reached.seconds)}{steps}.")
    for arm, points in arms.items():
        if len(came[arm]) < len(points):
            lines.append(f"  Not reached {arm} with {len(points) - len(came[arm])} of {len(points)} seeds.")
    return lines


def _speed_words(ratio: Ratio) -> str:
    """A ratio as a speedup. It is called faster or slower only if the interval excludes 1."""
    if ratio.low == ratio.high == 1:
        return "alike"
    if ratio.high < 1:
        return f"{ratio_words(ratio)} faster"
    found = "slower" if ratio.low > 1 else "no difference found"
    return f"{found}, {ratio_words(ratio)} as fast"


def _median_words(points: list[Point]) -> str:
    seconds, steps = median(p.seconds for p in points), median(p.step for p in points)
    return f"{seconds_words(seconds)} ({steps:g} steps)"


def _number(value: float) -> str:
    return f"{value:.6g}"
