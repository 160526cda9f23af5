"""How fast a search comes to a good plan, by a table of all plans: nothing is trained.

Times of plans are in units of the baseline's, which every search knows from the start. A trial costs the
seconds that the table's process took from its start to its end, and gives the table's time, which is a mean
over rounds: so the other searches see less noise than they would.
"""

from __future__ import annotations

import math
import random
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median
from typing import Any

from hasten.records.plan import Plan

from .search_space import Axes, together

REPEATS = 1000  # of the random search
SEEDS = 30  # of Optuna's
POINTS = 500  # in time, at which a score looks
CUTOFF = 0.95  # of the way from the median to the best: when the random search is there, a score ends


@dataclass(frozen=True)
class Cell:
    """A plan that was timed. ``time``: over the baseline's; None if it failed. ``seconds``: of its
    process.
    """

    time: float | None
    seconds: float


Table = Mapping[Plan, Cell]
Curve = Sequence[tuple[float, float]]
"""The time of the best plan so far, from these seconds on; in the order of seconds, the first at 0."""


def at(curve: Curve, seconds: float) -> float:
    return curve[bisect_right(curve, (seconds, math.inf)) - 1][1]


def reached(curve: Curve, time: float) -> float | None:
    """The seconds at which the best so far is as good as ``time``; None if it never is."""
    return next((seconds for seconds, best in curve if best <= time), None)


def best_of(table: Table) -> Plan:
    """Raises ValueError if none could be timed."""
    return min(times_of(table), key=times_of(table).__getitem__)


def times_of(table: Table) -> dict[Plan, float]:
    """Of those that could be timed."""
    return {plan: cell.time for plan, cell in table.items() if cell.time is not None}


def exhaustive_seconds(table: Table) -> float:
    """One process for each plan."""
    return sum(cell.seconds for cell in table.values())


# ---- other searches
def best_so_far(trials: Iterator[Plan], table: Table, until: float) -> Curve:
    """Of trials one after another, those that end within so many seconds, or until the best is found."""
    best, least, now = 1.0, min(times_of(table).values(), default=1.0), 0.0
    curve = [(now, best)]
    for plan in trials:
        cell = table[plan]
        now += cell.seconds
        if now > until:
            break
        if cell.time is not None and cell.time < best:
            best = cell.time
            curve.append((now, best))
        if best <= least:
            break
    return curve


def random_curves(table: Table, repeats: int = REPEATS) -> list[Curve]:
    """Each plan is tried once, in an order drawn at random."""
    draw = random.Random(0)
    return [best_so_far(iter(draw.sample(list(table), len(table))), table, math.inf) for _ in range(repeats)]


def optuna_curves(table: Table, axes: Axes, seeds: int = SEEDS) -> list[Curve]:
    """By Optuna's usual sampler, TPE, for as long as it would take to try all plans. It may ask for the same
    again, and pays for it again.
    """
    return [best_so_far(_asked(table, axes, seed), table, exhaustive_seconds(table)) for seed in range(seeds)]


def _asked(table: Table, axes: Axes, seed: int) -> Iterator[Plan]:
    """What Optuna asks for, one after another; it is told the table's time."""
    found = optuna()
    study = found.create_study(sampler=found.samplers.TPESampler(seed=seed))
    while True:
        trial = study.ask()
        ways = [ways[trial.suggest_categorical(name, list(range(len(ways))))] for name, ways in axes.items()]
        plan = together(ways)
        yield plan
        time = table[plan].time
        if time is None:
            study.tell(trial, state=found.trial.TrialState.FAIL)
        else:
            study.tell(trial, time)


def optuna() -> Any:
    """Raises SystemExit if it is not installed."""
    try:
        import optuna as found
    except ImportError:
        raise SystemExit("the other search is Optuna's: pip install -e '.[bench]'") from None
    found.logging.set_verbosity(found.logging.WARNING)
    return found


def seconds_to(time: float, curves: Sequence[Curve], otherwise: float) -> float:
    """The median seconds to a plan as good as ``time``. A search that never finds one counts with
    ``otherwise``.
    """
    found = [reached(curve, time) for curve in curves]
    return median(otherwise if seconds is None else seconds for seconds in found)


# ---- the score
def score(curves: Sequence[Curve], table: Table, random: Sequence[Curve]) -> float | None:
    """How far above a random search, on the way to the best plan: 1 for the best at once, 0 for what random
    search does; below, where it is worse. None if the random search needs no time.

    By the methodology of Kernel Tuner (doi 10.1016/j.future.2024.05.021): at moments equally far apart, the
    part of the way from random search's mean curve to the optimum that the mean of ``curves`` has gone; of
    these parts the mean. The moments end where random search has gone 95% of the way from the median of all
    plans to the best. Here random search is simulated, since its trials do not all cost the same, where the
    methodology calculates it for the mean cost; and all searches begin with the baseline, which costs none
    of them anything.
    """
    best, usual = min(times_of(table).values()), median(times_of(table).values())
    ends = _cutoff(random, usual - CUTOFF * (usual - best), exhaustive_seconds(table))
    if ends == 0:
        return None
    moments = [ends * number / POINTS for number in range(POINTS)]
    mean, drawn = _mean_of(curves), _mean_of(random)
    return fmean(1 - (mean(moment) - best) / (drawn(moment) - best) for moment in moments)


def _cutoff(random: Sequence[Curve], time: float, most: float) -> float:
    """The seconds at which the mean of all is as good as ``time``, by bisection; it only falls."""
    mean, low, high = _mean_of(random), 0.0, most
    if mean(0.0) <= time:
        return 0.0
    while high - low > most / 1e4:
        middle = (low + high) / 2
        low, high = (low, middle) if mean(middle) <= time else (middle, high)
    return high


def _mean_of(curves: Sequence[Curve]) -> Callable[[float], float]:
    return lambda seconds: fmean(at(curve, seconds) for curve in curves)
