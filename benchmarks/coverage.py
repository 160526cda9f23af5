"""Are the intervals right, and the claims? By simulation, where the truth is known.

    python -m benchmarks.coverage

Counts, over simulated confirmations, how often the 95% interval holds the true ratio, how often a gain is
claimed if there is none, and how often one is found that is there. Raw numbers go to
``benchmarks/results``; ``benchmarks.measuring`` puts them on the page.
"""

from __future__ import annotations

import math
import time
from dataclasses import asdict
from statistics import fmean
from typing import Any

import numpy as np

from hasten.bench.comparing.decisions import (
    LOOKS_MOST,
    is_gain,
    looks_of,
    margin,
    worth_looking,
)
from hasten.bench.comparing.statistics import interval
from hasten.tuning.costs import PAIRS_MOST

from .noise import DRIFT_SD, Floats
from .paired import (
    BEYOND,
    CASES,
    B,
    Case,
    Schedule,
    check,
    draw,
    draw_alone,
    log_ratios,
    schedule_of_pairs,
    seconds_alone,
    seconds_of,
    whole_run_log_ratio,
)
from .results import write_result

SEED = 20261120
COMPARISONS = 10_000
OF_POWER = 4_000  # of them, for each point of the power curve
AT_ONCE = 2_000
CHECKED = 25
COUNTS = (4, 6, 10)  # pairs
EFFECTS = (0.01, 0.02, 0.03, 0.05, 0.07, 0.1, 0.15, 0.2, 0.3)
TOLERANCE = 1e-9


def main() -> None:
    began = time.monotonic()
    schedule = schedule_of_pairs()
    cases = [simulate(case, schedule, number) for number, case in enumerate((*CASES, *BEYOND))]
    for case in cases:
        for row in case["points"]:
            print(
                f"{case['what']}, {row['pairs']} pairs: covered {row['coverage']:.2%}, of whole runs "
                f"{row['coverage_of_whole_runs']:.2%}; false wins {row['claimed']:.2%}, by the bound "
                f"{row['claimed_by_the_bound']:.2%}; bias {row['bias']:+.3%}"
            )
    print(f"{time.monotonic() - began:.0f} s")
    known, beyond = cases[: len(CASES)], cases[len(CASES) :]
    write_result("coverage", {"seed": SEED, "drift_sd": DRIFT_SD, "cases": known, "beyond": beyond})


def simulate(case: Case, schedule: Schedule, number: int) -> dict[str, Any]:
    """All numbers of one case."""
    source, source_alone = np.random.default_rng([SEED, number]), np.random.default_rng([SEED, number, 1])
    drawn, times, wholes, difference = [], [], [], 0.0
    for done in range(0, COMPARISONS, AT_ONCE):
        draws = draw(case, schedule, AT_ONCE, max(COUNTS), source)
        if done == 0:
            difference = check(draws, schedule, CHECKED, effect=0.8)
            assert difference < TOLERANCE, "PairsBench and the simulation of it differ"
        drawn.append(log_ratios(draws, schedule))
        alone = seconds_alone(draw_alone(case.b, schedule, AT_ONCE, source_alone), schedule)
        times.append(np.concatenate([seconds_of(B, draws, schedule), alone], axis=1))
        wholes.append(whole_run_log_ratio(draws, schedule))
    values, seconds = np.concatenate(drawn), np.concatenate(times)
    # Where both plans share one noise, the truth is 0 by symmetry; elsewhere the mean of all pairs is taken.
    truth = 0.0 if case.a == case.b else float(values.mean())
    whole = 0.0 if case.a == case.b else fmean(wholes)
    return {
        "name": case.name,
        "what": case.what,
        "noise": {"a": asdict(case.a), "b": asdict(case.b)},
        "spread": float(values.std()),  # of one pair's log ratio
        "truth": truth,
        "whole_runs": whole,
        "checked_with_pairs_bench": {"comparisons": CHECKED, "largest_difference": difference},
        "points": [
            {
                **point(values[:, :pairs] - truth, whole - truth),
                **claims(values[:, :pairs] - truth, of_the_plan(seconds, pairs), 0.0),
                **without_a_slow_process(case, values[:, :pairs]),
            }
            for pairs in COUNTS
        ],
        "power": [
            curve(values[:OF_POWER, :pairs] - truth, of_the_plan(seconds[:OF_POWER], pairs))
            for pairs in COUNTS
        ],
    }


def point(errors: Floats, whole_runs: float) -> dict[str, Any]:
    """Of comparisons without an effect: ``errors`` are log ratios less the true one, comparisons x pairs."""
    covered = of_whole_runs = 0
    means, widths = [], []
    for row in errors.tolist():
        ratio = interval(row, "pairs")
        assert ratio is not None
        covered += ratio.low <= 1 <= ratio.high
        of_whole_runs += ratio.low <= math.exp(whole_runs) <= ratio.high
        means.append(math.log(ratio.value))
        widths.append(ratio.high / ratio.low - 1)
    count = len(errors)
    return {
        "pairs": errors.shape[1],
        "comparisons": count,
        "coverage": covered / count,
        "coverage_of_whole_runs": of_whole_runs / count,
        "bias": fmean(means),
        "median_width": float(np.median(widths)),
    }


def without_a_slow_process(case: Case, values: Floats) -> dict[str, Any]:
    """Of the comparisons whose pairs show no slow process, where only one plan has such."""
    if case.a == case.b:
        return {}
    gap = max(case.a.slow_by, case.b.slow_by)
    unseen = np.abs(values).max(axis=1) < gap / 2
    shown = {
        True: point(values[unseen] - values.mean(), 0.0),
        False: point(values[~unseen] - values.mean(), 0.0),
    }
    return {
        "without_a_slow_process": float(unseen.mean()),
        "coverage_without": shown[True]["coverage"],
        "coverage_with": shown[False]["coverage"],
        "false_wins_without": by_the_bound(values[unseen] - values.mean()),
    }


def of_the_plan(seconds: Floats, pairs: int) -> Floats:
    """Of the plan's processes in this many pairs, and of those alone."""
    return np.concatenate([seconds[:, :pairs], seconds[:, max(COUNTS) :]], axis=1)


def by_the_bound(errors: Floats) -> float:
    """How often the bound alone would claim a gain."""
    return sum(margin(row) > 0 for row in errors.tolist()) / len(errors)


def claims(errors: Floats, seconds: Floats, effect: float) -> dict[str, float]:
    """How often a gain is claimed where the plan has this effect: with processes alone where they decide,
    without any, and by the bound alone; and how many of them are started.
    """
    bound = at_once = claimed = started = 0
    for row, times in zip((errors - math.log1p(effect)).tolist(), seconds.tolist(), strict=True):
        if margin(row) <= 0:
            continue
        looks: list[float] = []
        bound += 1
        at_once += is_gain(row)
        most = LOOKS_MOST if len(row) == PAIRS_MOST else 0  # as a tune does it: pairs first
        while worth_looking(row, looks, most):
            looks = looks_of(times[: len(row) + len(looks) + 2], len(row))
        claimed += is_gain(row, looks)
        started += len(looks)
    count = len(errors)
    return {
        "claimed": claimed / count,
        "claimed_at_once": at_once / count,
        "claimed_by_the_bound": bound / count,
        "started": started / count,
    }


def curve(errors: Floats, seconds: Floats) -> dict[str, Any]:
    """How often a gain is claimed, by the true effect: a speedup less one, negative where it is slower."""
    effects = [*(1 / (1 + effect) - 1 for effect in reversed(EFFECTS)), 0.0, *EFFECTS]
    found = [claims(errors, seconds, effect) for effect in effects]
    by_name = {name: [one[name] for one in found] for name in found[0]}
    return {"pairs": errors.shape[1], "comparisons": len(errors), "effects": effects, **by_name}


if __name__ == "__main__":
    main()
