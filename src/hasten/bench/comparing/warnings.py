"""What may spoil a measurement: a closed list. Its words, with advice, are in ``report.caution``.

``before_tuning`` looks only at the machine; ``while_tuning`` at what happened to it meanwhile, at the watched
steps and at the confirmation.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise
from statistics import fmean, median, pvariance

from ...records.caution import Caution
from ...records.observation import Observation
from ...records.phases import timed_step_seconds, usual_cycles
from ...records.trial import Trial
from ...records.vitals import Vitals
from ..base import loader_workers

_BUSY_SHARE = 0.2
_STOPPED_SHARE = 0.05  # of the quota's periods
_SWAPPED_PAGES = 256  # a megabyte
_CLOCK_CHANGE = 0.1
_SLOWER = 1.2
_TREND = 1.1
_GROWS = 1.02
_LEAST_CYCLES = 20
_TWO_SPEEDS = 1.15  # the slow steps' time over the fast ones'
_EXPLAINED = 0.85  # share of the variance, by two speeds; a uniform spread gives 0.75
_LEAST_PART = 0.2  # of the steps, at either speed


def before_tuning(before: Vitals, after: Vitals) -> list[Caution]:
    """Cautions from two readings taken while nothing of ours ran."""
    ticks = after.all_ticks - before.all_ticks
    share = (after.busy_ticks - before.busy_ticks) / ticks if ticks else 0.0
    return [Caution("busy", share=share)] if share >= _BUSY_SHARE else []


def while_tuning(
    before: Vitals, after: Vitals, observation: Observation, confirmation: Trial | None
) -> list[Caution]:
    """Cautions from the readings around the whole tune and what was seen in it."""
    return [
        *_of_the_machine(before, after),
        *_of_the_steps(observation),
        *_of_the_confirmation(observation, confirmation),
    ]


def _of_the_machine(before: Vitals, after: Vitals) -> Iterator[Caution]:
    periods, stops = after.quota_periods - before.quota_periods, after.quota_stops - before.quota_stops
    if periods and stops / periods > _STOPPED_SHARE:
        yield Caution("quota", share=stops / periods)
    if after.swapped_pages - before.swapped_pages > _SWAPPED_PAGES:
        yield Caution("swapped")
    if after.heat_stops > before.heat_stops:
        yield Caution("hot", count=after.heat_stops - before.heat_stops)
    pairs = list(zip(before.gpu_clocks, after.gpu_clocks, strict=False))
    if any(a and abs(b - a) / a > _CLOCK_CHANGE for a, b in pairs):
        yield Caution("gpu clock")


def _of_the_steps(observation: Observation) -> Iterator[Caution]:
    cycles = usual_cycles(observation.steps, observation.cycle)
    times = [sum(step.seconds for step in cycle) for cycle in cycles]
    if len(times) < _LEAST_CYCLES:
        yield Caution("few blocks", count=len(times))
        return
    third = len(times) // 3
    early, late = median(times[:third]), median(times[-third:])
    if early > _TREND * late:
        yield Caution("warming up", share=early / late - 1)
    elif late > _TREND * early and _grow(times):
        yield Caution("growing", share=late / early - 1)
    elif has_two_speeds(times):
        yield Caution("two speeds")


def _grow(times: Sequence[float]) -> bool:
    """Whether each quarter of them is longer than the one before: they did not become so at once."""
    quarter = len(times) // 4
    medians = [median(times[at * quarter : (at + 1) * quarter]) for at in range(4)]
    return all(later > _GROWS * earlier for earlier, later in pairwise(medians))


def has_two_speeds(times: Sequence[float]) -> bool:
    """Whether most variance of the logarithms is between two groups of some size, well apart."""
    logs = sorted(math.log(time) for time in times if time > 0)
    least = max(2, round(_LEAST_PART * len(logs)))
    everything = pvariance(logs) if len(logs) >= 2 * least else 0.0
    if not everything:
        return False
    splits = range(least, len(logs) - least + 1)
    between = [_between(logs[:at], logs[at:]) for at in splits]
    best = max(range(len(between)), key=between.__getitem__)
    at = splits[best]
    apart = fmean(logs[at:]) - fmean(logs[:at])
    return between[best] / everything > _EXPLAINED and apart > math.log(_TWO_SPEEDS)


def _between(low: Sequence[float], high: Sequence[float]) -> float:
    share = len(low) / (len(low) + len(high))
    return share * (1 - share) * (fmean(high) - fmean(low)) ** 2


def _of_the_confirmation(observation: Observation, confirmation: Trial | None) -> Iterator[Caution]:
    if confirmation is None or confirmation.step_seconds_a is None or confirmation.parts:
        return  # over whole stretches, a step's time has evaluations and similar in it
    slower = confirmation.step_seconds_a / timed_step_seconds(observation, loader_workers(confirmation.b))
    if slower > _SLOWER:
        yield Caution("became slower", times=slower)
