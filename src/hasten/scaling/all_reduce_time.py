"""What an all-reduce takes, and how much of it a backward pass hides.

A ring of N workers takes 2 (N - 1) messages, each of an Nth of the bytes:
``2 (N - 1) latency + 2 (N - 1) / N bytes / bandwidth``.

Sources: https://doi.org/10.1016/j.jpdc.2008.09.002 (Patarasuk and Yuan, the ring),
https://arxiv.org/abs/2006.15704 (Li et al., buckets that are reduced during the backward pass)
"""

from __future__ import annotations

import math

from ..records.scaling import Cluster, Link, Workload


def ring_seconds(workers: int, amount_bytes: float, link: Link) -> float:
    """Seconds of one all-reduce of ``amount_bytes`` by a ring over links that are all alike."""
    if workers < 2:
        return 0.0
    messages = 2 * (workers - 1)
    return messages * (link.latency_seconds + amount_bytes / workers / link.bytes_per_second)


def all_reduce_seconds(workers: int, amount_bytes: float, cluster: Cluster) -> float:
    """Within each host first, then between one worker of each, and back: as long as a ring within a host
    and one between hosts.
    """
    hosts = math.ceil(workers / cluster.per_host)
    in_host = min(workers, cluster.per_host)
    within = ring_seconds(in_host, amount_bytes, cluster.within)
    return within + ring_seconds(hosts, amount_bytes, cluster.between)


def exposed_seconds(
    workers: int, workload: Workload, cluster: Cluster, backward_seconds: float, overlapped: bool
) -> float:
    """What reducing the gradients adds to a step. ``overlapped``: a bucket is sent as soon as the backward
    pass, in which buckets become ready at even intervals, has filled it.
    """
    buckets = max(1, math.ceil(workload.gradient_bytes / workload.bucket_bytes))
    each = all_reduce_seconds(workers, workload.gradient_bytes / buckets, cluster)
    if not overlapped:
        return buckets * each
    end = 0.0
    for number in range(1, buckets + 1):
        end = max(end, backward_seconds * number / buckets) + each
    return end - backward_seconds
