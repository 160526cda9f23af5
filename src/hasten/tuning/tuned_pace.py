"""How long steps take under a plan, from the processes that confirmed it: slower runs are slow."""

from __future__ import annotations

import math
from statistics import fmean, median, stdev

from ..bench.comparing.statistics import t_quantile
from ..records.run_pace import TunedPace
from ..records.trial import Trial

_BY_CHANCE = 0.0005  # share of equally fast runs that take the most or more
_LEAST_SPREAD = 0.01
_LEAST_PROCESSES = 3


def tuned_pace(trial: Trial) -> TunedPace | None:
    """The plan's pace; None if too few processes reported times. Each process has its own speed: the most is
    where one more lies by chance, by Student's t, with the spread estimated from these few.
    """
    told = [one for one in trial.processes_b if one.step_seconds > 0]
    if len(told) < _LEAST_PROCESSES:
        return None
    seconds = [one.step_seconds for one in told]
    logs = [math.log(one) for one in seconds]
    spread = max(_LEAST_SPREAD, stdev(logs)) * math.sqrt(1 + 1 / len(logs))
    most = math.exp(fmean(logs) + t_quantile(1 - 2 * _BY_CHANCE, len(logs) - 1) * spread)
    most = max(most, median(seconds) * math.exp(max(trial.looks, default=0.0)))  # one of them was slow
    samples = [one.samples for one in told if one.samples is not None]
    waits = [one.data_seconds for one in told if one.data_seconds is not None]
    return TunedPace(
        median(seconds), most, median(samples) if samples else None, median(waits) if waits else None
    )
