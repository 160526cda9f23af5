"""What may spoil a measurement: a closed list, each with advice.

``before_tuning`` looks at the machine alone; ``while_tuning`` at what happened to it meanwhile, at the steps
that were watched and at the confirmation.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from statistics import fmean, median, pvariance

from ...records.observation import Observation
from ...records.phases import step_seconds, usual_cycles
from ...records.trial import Trial
from ...records.vitals import Vitals

_BUSY_SHARE = 0.2
_STOPPED_SHARE = 0.05  # of the quota's periods
_SWAPPED_PAGES = 256  # a megabyte
_CLOCK_CHANGE = 0.1
_SLOWER = 1.2
_TREND = 1.1
_LEAST_CYCLES = 20
_TWO_SPEEDS = 1.15  # the slow steps' time over the fast ones'
_EXPLAINED = 0.85  # of the variance, by two speeds; a uniform spread gives 0.75
_LEAST_PART = 0.2  # of the steps, at either speed


def before_tuning(before: Vitals, after: Vitals) -> list[str]:
    """From two readings while nothing of ours ran."""
    ticks = after.all_ticks - before.all_ticks
    share = (after.busy_ticks - before.busy_ticks) / ticks if ticks else 0.0
    if share < _BUSY_SHARE:
        return []
    return [
        f"other programs kept {share:.0%} of this machine's cores busy before measuring began: intervals "
        "will be wide. Stop them, or measure when the machine is quiet"
    ]


def while_tuning(
    before: Vitals, after: Vitals, observation: Observation, confirmation: Trial | None
) -> list[str]:
    """From the readings around the whole tune and what was seen in it."""
    return [
        *_of_the_machine(before, after),
        *_of_the_steps(observation),
        *_of_the_confirmation(observation, confirmation),
    ]


def _of_the_machine(before: Vitals, after: Vitals) -> Iterator[str]:
    periods, stops = after.quota_periods - before.quota_periods, after.quota_stops - before.quota_stops
    if periods and stops / periods > _STOPPED_SHARE:
        yield (
            f"the container's CPU quota stopped the training in {stops / periods:.0%} of its periods: times "
            "tell of the quota. Give it more CPUs, or use fewer threads (threads:count=N)"
        )
    if after.swapped_pages - before.swapped_pages > _SWAPPED_PAGES:
        yield (
            "memory was swapped to disk while tuning: times tell of the disk. Free memory, or train with "
            "smaller batches"
        )
    if after.heat_stops > before.heat_stops:
        yield (
            f"cores slowed down {after.heat_stops - before.heat_stops} times because they were hot: later "
            "steps are slower than earlier ones. Tune again when the machine has cooled"
        )
    pairs = list(zip(before.gpu_clocks, after.gpu_clocks, strict=False))
    if any(a and abs(b - a) / a > _CLOCK_CHANGE for a, b in pairs):
        yield (
            "a GPU's clock moved while tuning: lock it for steadier times (nvidia-smi --lock-gpu-clocks, "
            "as root), or give the tune a longer --budget"
        )


def _of_the_steps(observation: Observation) -> Iterator[str]:
    cycles = usual_cycles(observation.steps, observation.cycle)
    times = [sum(step.seconds for step in cycle) for cycle in cycles]
    if len(times) < _LEAST_CYCLES:
        yield (
            f"only {len(times)} blocks of steps could be watched: what repeats rarely was not seen. Let the "
            "script train longer"
        )
        return
    third = len(times) // 3
    early, late = median(times[:third]), median(times[-third:])
    if early > _TREND * late:
        yield (
            f"steps were still getting faster while they were watched, by {early / late - 1:.0%}: the script "
            "warms up for longer than was waited. Compare with hasten profile --warmup 100"
        )
    elif has_two_speeds(times):
        yield (
            "steps have two speeds: something switches between a fast and a slow state (clocks, memory, a "
            "neighbour). Pairs of processes average over it; a longer --budget narrows the interval"
        )


def has_two_speeds(times: Sequence[float]) -> bool:
    """Whether most of the variance of the logarithms lies between two groups of some size, well apart."""
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


def _of_the_confirmation(observation: Observation, confirmation: Trial | None) -> Iterator[str]:
    if confirmation is None or confirmation.step_seconds_a is None:
        return
    slower = confirmation.step_seconds_a / step_seconds(observation)
    if slower > _SLOWER:
        yield (
            f"plain steps took {slower:.1f} times as long at the end of the tune as at its beginning: the "
            "machine became slower (its clock, or other programs). Tune again when it is steady"
        )
