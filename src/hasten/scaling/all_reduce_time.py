"""What an all-reduce takes, and how much of it a backward pass hides.

A ring of N workers takes 2 (N - 1) messages, each of an Nth of the bytes:
``2 (N - 1) latency + 2 (N - 1) / N bytes / bandwidth``. NCCL reduces one bucket after another; Gloo two at
once (``gloo_overlap``), and asks before it sends, which takes the latency once more.

Sources: https://doi.org/10.1016/j.jpdc.2008.09.002 (Patarasuk and Yuan, the ring),
https://arxiv.org/abs/2006.15704 (Li et al., buckets that are reduced during the backward pass)
"""

from __future__ import annotations

import math
from itertools import accumulate

from ..records.scaling import Cluster, Link, Workload
from .gloo_overlap import WAYS, Sending, last_reduced


def messages_of(workers: int) -> int:
    """That each sends in one all-reduce by a ring."""
    return 2 * (workers - 1)


def ring_seconds(workers: int, amount_bytes: float, link: Link, ways: int = 1) -> float:
    """Seconds of one all-reduce of ``amount_bytes`` by a ring over links that are all alike. ``ways``: times
    the latency, for each message.
    """
    if workers < 2:
        return 0.0
    message_seconds = amount_bytes / workers / link.bytes_per_second
    return messages_of(workers) * (ways * link.latency_seconds + message_seconds)


def all_reduce_seconds(workers: int, amount_bytes: float, cluster: Cluster, ways: int = 1) -> float:
    """Within each host first, then between one worker of each, and back: as long as a ring within a host
    and one between hosts.
    """
    hosts = math.ceil(workers / cluster.per_host)
    in_host = min(workers, cluster.per_host)
    within = ring_seconds(in_host, amount_bytes, cluster.within, ways)
    return within + ring_seconds(hosts, amount_bytes, cluster.between, ways)


def exposed_seconds(
    workers: int, workload: Workload, cluster: Cluster, backward_seconds: float, overlapped: bool
) -> float:
    """What reducing the gradients adds to a step. ``overlapped``: a bucket is sent as soon as the backward
    pass, which makes gradients at an even pace, has filled it.
    """
    if workers < 2:
        return 0.0
    buckets = buckets_of(workload)
    ways = WAYS if workload.backend == "gloo" else 1
    each = [all_reduce_seconds(workers, size, cluster, ways) for size in buckets]
    if not overlapped:
        return sum(each)
    filled = accumulate(buckets)
    ready = [backward_seconds * size / max(1.0, workload.gradient_bytes) for size in filled]
    if workload.backend == "gloo":
        sent = [_sending(workers, size, cluster, at) for size, at in zip(buckets, ready, strict=True)]
        return last_reduced(sent) - backward_seconds
    end = 0.0
    for at, seconds in zip(ready, each, strict=True):
        end = max(end, at) + seconds
    return end - backward_seconds


def buckets_of(workload: Workload) -> list[float]:
    """Their bytes, in the order in which they are filled: a small one, full ones, and the rest."""
    sizes, left = [], float(workload.gradient_bytes)
    limit = min(workload.first_bucket_bytes, workload.bucket_bytes)
    while left > limit:
        sizes.append(float(limit))
        left, limit = left - limit, workload.bucket_bytes
    return [*sizes, left]


def _sending(workers: int, size: float, cluster: Cluster, ready: float) -> Sending:
    """Over the link between hosts, or within the only one."""
    hosts, in_host = math.ceil(workers / cluster.per_host), min(workers, cluster.per_host)
    ring, link = (hosts, cluster.between) if hosts > 1 else (in_host, cluster.within)
    within = ring_seconds(in_host, size, cluster.within, WAYS) if hosts > 1 else 0.0
    on_link = size / ring / link.bytes_per_second
    return Sending(ready, messages_of(ring), on_link, WAYS * link.latency_seconds, within)
