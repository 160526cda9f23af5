"""What an all-reduce takes, against one that is played message by message."""

from __future__ import annotations

from typing import Literal

import pytest

from hasten.records.scaling import Cluster, Line, Link, StepCost, Workload
from hasten.scaling.all_reduce_time import all_reduce_seconds, buckets_of, exposed_seconds, ring_seconds

LINK = Link(latency_seconds=50e-6, bytes_per_second=1e9)
FAST = Link(latency_seconds=1e-6, bytes_per_second=1e10)
LINE = Line(0.01, 0.001)


def work(
    gradient_bytes: int, bucket_bytes: int = 25 * 2**20, backend: Literal["gloo", "nccl"] = "nccl"
) -> Workload:
    cost = StepCost(LINE, LINE, LINE, 0.5, (1.0,))
    return Workload(cost, 64, gradient_bytes, None, bucket_bytes, backend=backend)


def played(workers: int, amount: float, link: Link) -> float:
    """Each worker sends a piece to its neighbour as soon as it has the one before; N - 1 rounds reduce, N - 1
    spread what was reduced.
    """
    at = [0.0] * workers
    for _ in range(2 * (workers - 1)):
        arrives = [time + link.latency_seconds + amount / workers / link.bytes_per_second for time in at]
        at = [max(at[n], arrives[n - 1]) for n in range(workers)]
    return max(at)


@pytest.mark.parametrize("workers", [1, 2, 3, 8, 100])
@pytest.mark.parametrize("amount", [0, 4096, 10**8])
def test_a_ring_takes_what_its_messages_take(workers: int, amount: int) -> None:
    assert ring_seconds(workers, amount, LINK) == pytest.approx(played(workers, amount, LINK))


def test_hosts_of_several_workers_reduce_within_and_between() -> None:
    cluster = Cluster(per_host=4, within=FAST, between=LINK)
    assert all_reduce_seconds(4, 1e6, cluster) == ring_seconds(4, 1e6, FAST)
    assert all_reduce_seconds(8, 1e6, cluster) == ring_seconds(4, 1e6, FAST) + ring_seconds(2, 1e6, LINK)
    assert all_reduce_seconds(3, 1e6, cluster) == ring_seconds(3, 1e6, FAST)


def test_the_last_bucket_is_never_hidden() -> None:
    cluster = Cluster(per_host=1, within=FAST, between=LINK)
    four = work(4 * 2**20, bucket_bytes=2**20)
    each = ring_seconds(2, 2**20, LINK)
    assert exposed_seconds(2, four, cluster, 1.0, overlapped=True) == pytest.approx(each)
    assert exposed_seconds(2, four, cluster, 1.0, overlapped=False) == pytest.approx(4 * each)


def test_what_takes_longer_than_the_backward_pass_shows() -> None:
    """The first of four buckets is ready after a quarter of the pass; then all of them are sent in a row."""
    cluster = Cluster(per_host=1, within=FAST, between=LINK)
    four = work(4 * 2**20, bucket_bytes=2**20)
    each = ring_seconds(2, 2**20, LINK)
    backward = each / 10
    found = exposed_seconds(2, four, cluster, backward, overlapped=True)
    assert found == pytest.approx(backward / 4 + 4 * each - backward)


def test_one_worker_exchanges_nothing() -> None:
    cluster = Cluster(per_host=1, within=FAST, between=LINK)
    assert exposed_seconds(1, work(10**8), cluster, 0.0, overlapped=False) == 0.0


def test_the_first_bucket_is_small_and_the_last_one_the_rest() -> None:
    assert buckets_of(work(60 * 2**20)) == [2**20, 25 * 2**20, 25 * 2**20, 9 * 2**20]
    assert buckets_of(work(2**20)) == [2**20]
    assert buckets_of(work(1000)) == [1000]
    assert buckets_of(work(3000, bucket_bytes=1000)) == [1000, 1000, 1000]


def test_gloo_hides_the_latency_of_one_bucket_behind_another() -> None:
    """With a link that is slow to answer, all of NCCL's latency shows, and little of Gloo's."""
    far = Cluster(per_host=1, within=FAST, between=Link(latency_seconds=10e-3, bytes_per_second=1e9))
    near = Cluster(per_host=1, within=FAST, between=Link(latency_seconds=0.0, bytes_per_second=1e9))
    for backend, least, most in (("nccl", 24 * 60e-3, 27 * 60e-3), ("gloo", 60e-3, 24 * 60e-3)):
        of = work(600 * 2**20, backend=backend)  # type: ignore[arg-type]
        latency = exposed_seconds(4, of, far, 0.1, True) - exposed_seconds(4, of, near, 0.1, True)
        assert least <= latency <= most
    gloo, nccl = (work(600 * 2**20, backend=name) for name in ("gloo", "nccl"))
    assert exposed_seconds(4, gloo, far, 0.1, True) < exposed_seconds(4, nccl, far, 0.1, True)
    assert exposed_seconds(4, gloo, near, 0.1, True) == pytest.approx(
        exposed_seconds(4, nccl, near, 0.1, True), rel=0.01
    )


def test_several_workers_of_a_host_reduce_before_their_host_sends() -> None:
    of = work(2**20, backend="gloo")
    cluster = Cluster(per_host=4, within=LINK, between=LINK)
    alone = Cluster(per_host=1, within=LINK, between=LINK)
    within = ring_seconds(4, 2**20, LINK, ways=2)
    found = exposed_seconds(8, of, cluster, 0.0, True)
    assert found == pytest.approx(within + exposed_seconds(2, of, alone, 0.0, True))
