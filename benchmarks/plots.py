"""The plots of docs/measuring.md."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from statistics import fmean
from textwrap import fill
from typing import Any

from hasten.bench.comparing.decisions import (
    CLAIM_LEAST_PROCESSES,
    CLAIM_LEAST_SPEEDUP,
    SLOW,
    reckoned,
)
from hasten.bench.comparing.statistics import claim_probability, interval

from .known_effects_summary import Known
from .results import DOCS

PLOTS = DOCS / "plots"
COLOURS = {4: "#c44e52", 6: "#dd8452", 10: "#4c72b0"}  # by pairs
RED, ORANGE, BLUE = COLOURS.values()


def draw_coverage(cases: list[dict[str, Any]]) -> None:
    plt = pyplot()
    figure, axes = plt.subplots(figsize=(8, 3.4))
    axes.axhspan(93, 97, color="0.92", label="93 to 97%")
    axes.axhline(95, color="0.5", linewidth=1)
    for number, pairs in enumerate(COLOURS):
        points = [point for case in cases for point in case["points"] if point["pairs"] == pairs]
        places = [place + 0.18 * (number - 1) for place in range(len(cases))]
        axes.plot(
            places, [100 * p["coverage"] for p in points], "o", color=COLOURS[pairs], label=f"{pairs} pairs"
        )
    axes.set_xticks(range(len(cases)), [fill(case["what"], 20) for case in cases], fontsize=8)
    axes.set_ylabel("95% intervals that hold\nthe true mean ratio, %")
    axes.legend(frameon=False, fontsize=8, loc="lower left")
    save(figure, "coverage")


def draw_power(cases: list[dict[str, Any]]) -> None:
    plt = pyplot()
    figure, grid = plt.subplots(1, len(cases), figsize=(3 * len(cases), 3.4), sharey=True)
    for axes, case in zip(grid, cases, strict=True):
        for curve in case["power"]:
            pairs = curve["pairs"]
            axes.plot(
                [100 * effect for effect in curve["effects"]],
                [100 * share for share in curve["claimed"]],
                "o-",
                markersize=3,
                color=COLOURS[pairs],
                label=f"{pairs} pairs",
            )
        axes.axhline(80, color="0.7", linewidth=1)
        axes.axvline(0, color="0.7", linewidth=1)
        axes.set_title(fill(case["what"], 26), fontsize=9)
        axes.set_xlabel("true gain, %")
    grid[0].set_ylabel("gains claimed, %")
    grid[0].legend(frameon=False, fontsize=8)
    save(figure, "power")


def draw_known_effects(found: Sequence[Known], simulated: dict[str, Any]) -> None:
    """Nothing if nothing was measured. ``simulated``: the case drawn next to the claims."""
    if not found:
        return
    pairs = Counter(one.pairs for one in found).most_common(1)[0][0]
    shown = [one for one in found if one.pairs == pairs]
    figure, (claims, errors, same) = pyplot().subplots(1, 3, figsize=(13, 3.8))
    draw_claims(claims, shown, simulated)
    draw_errors(errors, shown)
    draw_same(same, [values for one in shown if one.gain == 0 for values in one.confirmations])
    save(figure, "known_effects")


def draw_claims(axes: Any, shown: Sequence[Known], simulated: dict[str, Any]) -> None:
    """Shares with 95% intervals; the line is what pairs that scatter as these did should give."""
    pairs = shown[0].pairs
    gains = [100 * math.expm1(-one.truth) for one in shown]
    shares = [one.claims / len(one.confirmations) for one in shown]
    bounds = [wilson(share, len(one.confirmations)) for share, one in zip(shares, shown, strict=True)]
    below = [100 * (share - low) for share, (low, _) in zip(shares, bounds, strict=True)]
    above = [100 * (high - share) for share, (_, high) in zip(shares, bounds, strict=True)]
    percent = [100 * share for share in shares]
    label = f"measured, {pairs} pairs"
    axes.errorbar(gains, percent, yerr=[below, above], fmt="o", markersize=4, color=BLUE, label=label)
    spread = math.sqrt(fmean(one.spread**2 for one in shown))
    if pairs >= CLAIM_LEAST_PROCESSES and spread:
        within = range(-30, 31)
        error = spread / math.sqrt(pairs)
        needed = math.log(CLAIM_LEAST_SPEEDUP) + SLOW / reckoned(pairs + shown[0].looks_most)
        excesses = [(math.log1p(gain / 100) - needed) / error for gain in within]
        expected = [100 * claim_probability(excess, pairs) for excess in excesses]
        axes.plot(
            within, expected, color=BLUE, linewidth=1, label=f"expected where pairs vary by {spread:.1%}"
        )
    for curve in simulated["power"]:
        if curve["pairs"] == pairs:
            effects = [100 * effect for effect in curve["effects"]]
            claimed = [100 * share for share in curve["claimed"]]
            label = f"simulated, pairs vary by {simulated['spread']:.1%}"
            axes.plot(effects, claimed, "--", color="0.6", linewidth=1, label=label)
    axes.set_xlabel("true gain, %")
    axes.set_ylabel("gains claimed, %")
    axes.legend(frameon=False, fontsize=7, loc="upper left")


def draw_errors(axes: Any, shown: Sequence[Known]) -> None:
    axes.axhspan(-1, 1, color="0.92", label="1%")
    axes.axhline(0, color="0.5", linewidth=1)
    for label, colour, aside, biases in (
        ("pairs of fresh processes", BLUE, -0.12, [one.bias for one in shown]),
        ("live, in one process", ORANGE, 0.12, [one.live_bias for one in shown]),
    ):
        seen = {place + aside: bias for place, bias in enumerate(biases) if bias is not None}
        values = [100 * bias.value for bias in seen.values()]
        errors = [200 * (bias.error or 0.0) for bias in seen.values()]
        axes.errorbar(list(seen), values, yerr=errors, fmt="o", markersize=4, color=colour, label=label)
    axes.set_xticks(range(len(shown)), [f"{100 * one.gain:+.0f}" for one in shown], fontsize=8)
    axes.set_xlabel("gain made, % (negative: slower)")
    axes.set_ylabel("estimate less the truth, %\n(two standard errors)")
    axes.legend(frameon=False, fontsize=8)


def draw_same(axes: Any, confirmations: Sequence[Sequence[float]]) -> None:
    """Of the same against the same: pairs, and 95% intervals, red where they miss the truth."""
    axes.axhline(0, color="0.5", linewidth=1)
    for number, values in enumerate(confirmations):
        ratio = interval(values, "pairs")
        axes.plot([number] * len(values), [100 * math.expm1(v) for v in values], ".", color="0.6")
        if ratio is not None:
            ends = [100 * (ratio.low - 1), 100 * (ratio.high - 1)]
            right = ratio.low <= 1 <= ratio.high
            axes.plot([number, number], ends, color=BLUE if right else RED, linewidth=2)
    axes.set_xlabel("the same against the same: confirmations")
    axes.set_ylabel("ratio of times less one, %\n(pairs, and the 95% interval)")


def wilson(share: float, count: int, z: float = 1.96) -> tuple[float, float]:
    """The 95% interval of a share seen in ``count`` cases. Source: Wilson, JASA 22 (1927)."""
    middle = (share + z * z / (2 * count)) / (1 + z * z / count)
    half = z / (1 + z * z / count) * math.sqrt(share * (1 - share) / count + (z / (2 * count)) ** 2)
    return min(share, middle - half), max(share, middle + half)


def pyplot() -> Any:
    try:
        import matplotlib
    except ImportError:
        raise SystemExit("plots need matplotlib: pip install -e '.[bench]'") from None
    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "hasten"  # the same numbers give the same file
    import matplotlib.pyplot as plt

    return plt


def save(figure: Any, name: str) -> None:
    PLOTS.mkdir(exist_ok=True)
    figure.tight_layout()
    figure.savefig(PLOTS / f"{name}.svg", metadata={"Date": None})
