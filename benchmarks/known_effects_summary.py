"""What the rows of ``benchmarks.known_effects`` say: estimates against the truth, claims, and intervals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, median, stdev
from typing import Any

from tests.bench.busy_techniques import true_log_ratio

from hasten.bench.comparing.decisions import CLAIM_LEAST_PROCESSES, is_gain, least_found
from hasten.bench.comparing.statistics import interval

Rows = Sequence[dict[str, Any]]


@dataclass(frozen=True)
class Estimate:
    """A mean of independent values. ``error``: its standard error; None for fewer than two."""

    value: float
    error: float | None

    @classmethod
    def of(cls, values: Sequence[float]) -> Estimate:
        error = stdev(values) / math.sqrt(len(values)) if len(values) > 1 else None
        return cls(fmean(values), error)

    def words(self, digits: int = 2) -> str:
        error = "" if self.error is None else f" ± {self.error:.{digits}%}"
        return f"{self.value:+.{digits}%}{error}"


@dataclass(frozen=True)
class Known:
    """All comparisons of one gain by the same number of pairs. Ratios and errors are logarithms."""

    gain: float  # as in busy_plan
    pairs: int
    truth: float
    confirmations: tuple[tuple[float, ...], ...]  # log ratios of pairs
    live: tuple[tuple[float, ...], ...]  # log ratios of ABBA blocks, each of one process
    looks: tuple[tuple[float, ...], ...]  # of processes of the plan alone, for each confirmation
    looks_most: int  # how many of them there might have been in each

    @property
    def values(self) -> list[float]:
        return [value for confirmation in self.confirmations for value in confirmation]

    @property
    def bias(self) -> Estimate:
        """Of the mean of all pairs."""
        return Estimate.of([value - self.truth for value in self.values])

    @property
    def live_bias(self) -> Estimate | None:
        """A process counts once."""
        return Estimate.of([fmean(ratios) - self.truth for ratios in self.live]) if self.live else None

    @property
    def spread(self) -> float:
        """Of pairs, within and between confirmations."""
        return stdev(self.values)

    @property
    def claims(self) -> int:
        return sum(map(is_gain, self.confirmations, self.looks))

    @property
    def covered(self) -> int:
        """How many 95% intervals hold the truth."""
        found = [interval(values, "pairs") for values in self.confirmations]
        return sum(ratio is not None and ratio.low <= math.exp(self.truth) <= ratio.high for ratio in found)

    @property
    def told(self) -> float | None:
        """The gain that such confirmations say that they find: the median."""
        if self.pairs < CLAIM_LEAST_PROCESSES:
            return None
        return median(least_found(values, self.pairs, self.looks_most) for values in self.confirmations)


def rest_of(rows: Rows) -> Estimate:
    """What of a step is not counted, in rounds: over calibrations."""
    found = []
    for row in rows:
        if row["kind"] == "calibration":
            (_, once, _), (idle, busy, _) = row["rounds"], row["step_seconds"]
            found.append(once * idle / (busy - idle))
    return Estimate.of(found)


def bend_of(rows: Rows) -> Estimate:
    """Twice the rounds should take twice the time: the share by which they take more."""
    found = []
    for row in rows:
        if row["kind"] == "calibration":
            idle, once, twice = row["step_seconds"]
            found.append((twice - idle) / (once - idle) / 2 - 1)
    return Estimate.of(found)


def known_effects(rows: Rows) -> list[Known]:
    """By number of pairs, then by gain. Comparisons that failed are left out. Those of the first version
    could start no process alone; they are counted by themselves.
    """
    groups: dict[tuple[int, float, int, int, int], list[dict[str, Any]]] = {}
    for row in rows:
        if row["kind"] == "comparison" and row["pairs"]["failure"] is None:
            key = (
                len(row["pairs"]["log_ratios"]),
                row["gain"],
                *row["rounds"],
                row["pairs"].get("looks_most", 0),
            )
            groups.setdefault(key, []).append(row)
    rest = rest_of(rows).value if groups else 0.0
    return [
        Known(
            gain=gain,
            pairs=pairs,
            truth=true_log_ratio(rounds_a, rounds_b, rest),
            confirmations=tuple(tuple(row["pairs"]["log_ratios"]) for row in group),
            live=tuple(tuple(row["live"]["log_ratios"]) for row in group if row["live"]["failure"] is None),
            looks=tuple(tuple(row["pairs"].get("looks", ())) for row in group),
            looks_most=looks_most,
        )
        for (pairs, gain, rounds_a, rounds_b, looks_most), group in sorted(groups.items())
    ]


def failed(rows: Rows) -> list[str]:
    """Reasons of comparisons that failed."""
    trials = [row[kind] for row in rows if row["kind"] == "comparison" for kind in ("live", "pairs")]
    return [trial["failure"] for trial in trials if trial["failure"] is not None]


# ---- words
def gain_words(gain: float) -> str:
    if gain == 0:
        return "the same"
    return f"{abs(gain):.0%} {'faster' if gain > 0 else 'slower'}"


def summary(rows: Rows) -> str:
    """A table in Markdown, and what it comes to."""
    known = known_effects(rows)
    if not known:
        return "nothing was measured yet"
    lines = [
        "| made | pairs | processes alone, at most | true ratio of times | "
        "mean of all pairs less the true one | sd of a pair | "
        "gains claimed | a gain it says it finds, median | 95% intervals that hold the true one | "
        "live, in one process: mean less the true one |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for one in known:
        count = len(one.confirmations)
        lines.append(
            f"| {gain_words(one.gain)} | {one.pairs} | {one.looks_most} | {math.exp(one.truth):.4f} | "
            f"{one.bias.words()} | "
            f"{one.spread:.1%} | {one.claims} of {count} | "
            f"{'-' if one.told is None else f'{one.told:.1%}'} | {one.covered} of {count} | "
            f"{'-' if one.live_bias is None else one.live_bias.words()} |"
        )
    return "\n".join([*lines, "", conclusion(known, rows)])


def conclusion(known: Sequence[Known], rows: Rows) -> str:
    """Bias and coverage over all effects, claims where nothing is gained, and how well the truth is known."""
    intervals = sum(len(one.confirmations) for one in known)
    covered = sum(one.covered for one in known)
    share = covered / intervals
    same = [one for one in known if one.gain == 0]
    none = [one for one in known if one.gain <= 0]
    bias = Estimate.of([value - one.truth for one in known for value in one.values])
    worst = max(known, key=lambda one: abs(one.bias.value))
    rest, bend, why = rest_of(rows), bend_of(rows), failed(rows)
    text = (
        f"Over all effects the estimate is {bias.words()} off the truth (standard error; logarithms), at "
        f"worst {worst.bias.words()} ({gain_words(worst.gain)}). {covered} of {intervals} intervals hold the "
        f"truth, {share:.1%} ± {math.sqrt(share * (1 - share) / intervals):.1%}; of the same against the "
        f"same, {sum(one.covered for one in same)} of {sum(len(one.confirmations) for one in same)}. "
        f"Where nothing is gained, {sum(one.claims for one in none)} gains were claimed in "
        f"{sum(len(one.confirmations) for one in none)} confirmations. The rest of a step, which is not "
        f"counted work, is {rest.value:.0f}{'' if rest.error is None else f' ± {rest.error:.0f}'} rounds; "
        f"the time of twice the rounds is {bend.words()} off twice the time."
    )
    return text + (f" {len(why)} comparisons failed: {'; '.join(sorted(set(why)))}." if why else "")
