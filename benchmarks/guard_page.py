"""What docs/measuring.md says of the guard, from ``benchmarks/results/guard_alarms.jsonl``."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from statistics import median
from typing import Any

from hasten.bench.guard.departures import departure

from .false_wins import rows_of
from .guard_alarms import FILE, TOLERANCES_FIXED
from .guard_rows import PARTS, alarms, checks_in, counted, summary, upper_bound
from .results import FOLDER

Row = Mapping[str, Any]
COLOURS = {"numerics": "#4c72b0", "loss curve": "#dd8452"}


def parts(plt: Any, save: Callable[[Any, str], None]) -> dict[str, str]:
    """By their names on the page. Draws the plot, too."""
    return {"rounding": rounding_table(), "guard": guard_words(plt, save)}


def guard_words(plt: Any, save: Callable[[Any, str], None]) -> str:
    rows = rows_of(FILE)
    harmless, faults = counted(rows, "harmless"), counted(rows, "fault")
    if not (harmless and faults):
        return "None has been run yet."
    draw(harmless, faults, plt, save)
    words = [
        runs_words(rows),
        alarm_table(harmless, faults),
        "Each fault, and the share of its runs in which a part of the guard catches it:",
        fault_table(faults),
        prediction_words(harmless),
    ]
    return "\n\n".join(words)


# ---- words
def runs_words(rows: Sequence[Row]) -> str:
    harmless = counted(rows, "harmless")
    scripts = len({row["script"] for row in harmless})
    plans = len({row["plan"] for row in harmless})
    text = f"{summary(rows).splitlines()[0]}. They are of {scripts} scripts under {plans} plans."
    fresh = [row for row in harmless if row["began"] > TOLERANCES_FIXED]
    text += (
        f" The tolerances were fixed after a look at the first of them. Of the {len(fresh)} begun since, "
        f"{sum(row['outcome'] == 'stopped' for row in fresh)} were stopped."
    )
    stopped = [row for row in harmless if row["outcome"] == "stopped"]
    told = [f"- {row['script']} under {row['plan']}: {'; '.join(row['reasons'])}" for row in stopped]
    return "\n".join([text, *told])


def rounding_table() -> str:
    """From the newest raw numbers of benchmarks/rounding.py."""
    path = sorted(FOLDER.glob("*-rounding.json"))[-1]
    rows = json.loads(path.read_text())["rows"]
    noises = ("every layer", "output alone")
    lines = [
        "| model | bfloat16 moves the gradient by | times what noise at every layer does | times what noise "
        "at the output and the gradients alone does |",
        "|---|---|---|---|",
    ]
    for model in {row["model"]: None for row in rows}:
        ours = [row for row in rows if row["model"] == model]
        cells = [_range([row["bfloat16"] / row[noise] for row in ours], ".2f") for noise in noises]
        lines.append(
            f"| {model} | {_range([row['bfloat16'] for row in ours], '.1%')} | {' | '.join(cells)} |"
        )
    return "\n".join([*lines, "", f"Raw numbers: [{path.name}](../benchmarks/results/{path.name})."])


def _range(values: Sequence[float], form: str) -> str:
    return f"{min(values):{form}} to {max(values):{form}}"


def alarm_table(harmless: Sequence[Row], faults: Sequence[Row]) -> str:
    lines = [
        "| part | alarms in harmless runs | at most, with 95% confidence | planted faults that it catches |",
        "|---|---|---|---|",
    ]
    for part in (*PARTS, "any"):
        false = sum(_stops(row, part) for row in harmless)
        caught = sum(_stops(row, part) for row in faults)
        lines.append(
            f"| {part} | {false} of {len(harmless)} | {upper_bound(false, len(harmless)):.1%} | "
            f"{caught} of {len(faults)} |"
        )
    return "\n".join(lines)


def fault_table(faults: Sequence[Row]) -> str:
    precisions = ("float32", "bfloat16")
    columns = [(part, precision) for part in PARTS for precision in precisions]
    lines = [
        "| fault | training | "
        + " | ".join(f"{part}, {precision}" for part, precision in columns)
        + " | any |",
        "|---|---|" + "---|" * (len(columns) + 1),
    ]
    for name, training in {(row["plan"], row["script"]): None for row in faults}:
        runs = [row for row in faults if (row["plan"], row["script"]) == (name, training)]
        cells = [_share([row for row in runs if row["precision"] == how], part) for part, how in columns]
        cells.append(_share(runs, "any"))
        lines.append(f"| {name.replace('_', ' ')} | {training} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _share(runs: Sequence[Row], part: str) -> str:
    return f"{sum(_stops(row, part) for row in runs)} of {len(runs)}" if runs else "-"


def prediction_words(harmless: Sequence[Row]) -> str:
    """How well the perturbed baseline predicts what bfloat16 does."""
    ratios = sorted(
        ours / theirs
        for row in harmless
        if row["precision"] == "bfloat16" and not row["draws"]
        for ours, theirs in [(_gradient_residual(row, "candidate"), _gradient_residual(row, "perturbed"))]
        if ours > 0 and theirs > 0
    )
    if not ratios:
        return "No plan with bfloat16 was run yet."
    near = sum(1 / 3 <= ratio <= 3 for ratio in ratios)
    return (
        f"How well a perturbed baseline predicts bfloat16: over the {len(ratios)} harmless runs with it in "
        "which no other numbers are drawn, the gradient differs "
        f"{median(ratios):.2f} times as far as the perturbed baseline's (median; {ratios[0]:.2f} to "
        f"{ratios[-1]:.2f}), within a factor of three in {near}."
    )


def _gradient_residual(row: Row, name: str) -> float:
    """The largest of all checked steps."""
    totals = [
        [math.fsum(column) for column in zip(*check.gradient.values(), strict=True)]
        for check in checks_in(row, name)
        if check.gradient
    ]
    return max((departure(sums).residual for sums in totals), default=0.0)


def _stops(row: Row, part: str) -> bool:
    return row["outcome"] == "stopped" if part == "any" else part in alarms(row)


# ---- the plot
def used(row: Row, part: str) -> float:
    """How much of its tolerance the part used: above 1 it alarms."""
    if part == "loss curve":
        curve = row["loss_curve"]
        return _ratio(curve["deviation"], curve["tolerance"])
    numerics = row["numerics"]
    if numerics.get("counts"):  # whole numbers, which no threshold excuses
        return math.inf
    if "compared" not in numerics:
        return math.inf if numerics.get("held") is False else 0.0
    whole = [numerics["mean_scale"]] if numerics["mean_scale"] and not row["draws"] else []
    several = [
        *numerics["compared"].values(),
        *([numerics["worst_tensor"]] if numerics["worst_tensor"] else []),
    ]
    return max(
        (
            *(_ratio(_off(one["scale"]), one["scale_tolerance"]) for one in (*several, *whole)),
            *(_ratio(one["residual"], one["residual_tolerance"]) for one in several),
        ),
        default=0.0,
    )


def _off(scale: float | None) -> float | None:
    return None if scale is None else abs(scale - 1)


def _ratio(departed: float | None, tolerance: float | None) -> float:
    return math.inf if departed is None or tolerance is None else departed / tolerance


def above(values: Sequence[float], threshold: float) -> float:
    return 100 * sum(value > threshold for value in values) / len(values)


def draw(harmless: Sequence[Row], faults: Sequence[Row], plt: Any, save: Callable[[Any, str], None]) -> None:
    """Left: detection against false alarms, as the thresholds move; right: both by the threshold."""
    figure, (curve, by_threshold) = plt.subplots(1, 2, figsize=(10.5, 3.6))
    thresholds = [10 ** (n / 20) for n in range(-80, 81)]
    for part, colour in COLOURS.items():
        fine, faulty = [used(row, part) for row in harmless], [used(row, part) for row in faults]
        false = [above(fine, threshold) for threshold in thresholds]
        caught = [above(faulty, threshold) for threshold in thresholds]
        curve.plot(false, caught, "-", color=colour, label=part)
        curve.plot([above(fine, 1)], [above(faulty, 1)], "o", color=colour)
        by_threshold.plot(thresholds, caught, "-", color=colour, label=f"faults, {part}")
        by_threshold.plot(thresholds, false, "--", color=colour, label=f"harmless, {part}")
    curve.set_xlabel("harmless runs that alarm, %")
    curve.set_ylabel("planted faults that are caught, %")
    curve.set_title("dots: the thresholds in use", fontsize=9)
    by_threshold.set_xscale("log")
    by_threshold.axvline(1, color="0.7", linewidth=1)
    by_threshold.set_xlabel("threshold, in units of the one in use")
    by_threshold.set_ylabel("runs that alarm, %")
    for axes in (curve, by_threshold):
        axes.set_ylim(-2, 102)
    curve.legend(frameon=False, fontsize=8, loc="center right")
    by_threshold.legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1, 0.5))
    save(figure, "guard")
