"""Step, speed, efficiency and price on any number of workers."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise

from ..records.scaling import Cluster, Range, Scaled, ScalingForecast, Workload
from .all_reduce_time import exposed_seconds
from .slowest_worker import slowest

WORTH = 1.1  # twice the workers are worth it where they train so many times as fast


def forecast(workload: Workload, cluster: Cluster, most: int) -> ScalingForecast:
    """On 1, 2, 4, ... ``most`` workers. With the script's own batch, no more than there are samples in it."""
    counts = [*_doublings(most)]
    same = [scaled(workload, cluster, workers) for workers in counts if workers <= workload.batch]
    grown = [
        scaled(replace(workload, batch=workload.batch * workers), cluster, workers) for workers in counts
    ]
    return ScalingForecast(workload, cluster, same, grown, pays_up_to(same))


def _doublings(most: int) -> Sequence[int]:
    counts = [2**power for power in range(most.bit_length()) if 2**power <= most]
    return counts if counts[-1] == most else [*counts, most]


def pays_up_to(same: Sequence[Scaled]) -> int:
    """The first number of workers of which twice as many train less than ``WORTH`` times as fast."""
    for one, more in pairwise(same):
        gained = more.samples_per_second.mid / one.samples_per_second.mid
        if gained < WORTH ** math.log2(more.workers / one.workers):
            return one.workers
    return same[-1].workers


def scaled(workload: Workload, cluster: Cluster, workers: int) -> Scaled:
    """The global batch is cut into slices that differ by one sample at most; the largest one decides."""
    cost, samples_each = workload.step, math.ceil(workload.batch / workers)
    hosts = math.ceil(workers / cluster.per_host)
    usual = cost.seconds(samples_each)
    computing = _each(operator.mul, usual, slowest(cost.spread, workers))
    communication = _communication(workload, cluster, workers, usual.mid * cost.backward_share)
    step = _each(operator.add, computing, communication)
    available = _availability(cluster, hosts)
    speed = _inverse(step, workload.batch * available)
    alone = workload.batch / (cost.mid.seconds(workload.batch) * slowest(cost.spread, 1).mid)
    epoch = None if workload.epoch_samples is None else _inverse(speed, workload.epoch_samples)
    hourly = cluster.host_hour_price
    return Scaled(
        workers=workers,
        hosts=hosts,
        samples_each=samples_each,
        step_seconds=step,
        communication_seconds=communication,
        waiting_seconds=_each(lambda slow, fast: max(0.0, slow - fast), computing, usual),
        availability=available,
        samples_per_second=speed,
        efficiency=_times(speed, 1 / alone / workers),
        epoch_seconds=epoch,
        epoch_price=_times(epoch, hourly * hosts / 3600) if epoch and hourly is not None else None,
    )


def _communication(workload: Workload, cluster: Cluster, workers: int, backward_seconds: float) -> Range:
    """Seconds of a step's communication, from the backward pass hiding all that it can to hiding nothing."""
    hidden, bare = (
        exposed_seconds(workers, workload, cluster, backward_seconds, overlapped)
        for overlapped in (True, False)
    )
    return Range(hidden, hidden, bare)


def _availability(cluster: Cluster, hosts: int) -> float:
    """The share of time not lost to failures, to first order: https://doi.org/10.1145/361147.361115."""
    if cluster.host_failure_seconds is None:
        return 1.0
    lost = cluster.checkpoint_seconds / 2 + cluster.restart_seconds
    return 1 / (1 + lost * hosts / cluster.host_failure_seconds)


def _each(of: Callable[..., float], *parts: Range) -> Range:
    return Range(*(of(*(getattr(part, end) for part in parts)) for end in ("low", "mid", "high")))


def _times(part: Range, factor: float) -> Range:
    return _each(lambda value: value * factor, part)


def _inverse(part: Range, amount: float) -> Range:
    return Range(amount / part.high, amount / part.mid, amount / part.low)
