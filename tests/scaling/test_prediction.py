"""Step, speed, efficiency and cost on more workers, by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hasten.records.scaling import Cluster, Line, Link, StepCost, Workload
from hasten.scaling.all_reduce_time import ring_seconds
from hasten.scaling.prediction import forecast, scaled

LINK = Link(latency_seconds=1e-3, bytes_per_second=1e9)
LINE = Line(0.1, 0.01)
WORK = Workload(
    StepCost(LINE, LINE, LINE, 0.0, (1.0, 1.0)), batch=100, gradient_bytes=10**7, epoch_samples=1000,
    first_bucket_bytes=10**8, backend="nccl",
)  # fmt: skip
CLUSTER = Cluster(per_host=1, within=LINK, between=LINK)


def test_one_worker_is_what_was_measured() -> None:
    one = scaled(WORK, CLUSTER, 1)
    assert one.step_seconds.mid == pytest.approx(1.1)
    assert one.efficiency.mid == pytest.approx(1.0)
    assert one.epoch_seconds is not None
    assert one.epoch_seconds.mid == pytest.approx(11.0)
    assert one.epoch_price is None


def test_four_workers_by_hand() -> None:
    four = scaled(WORK, CLUSTER, 4)
    step = 0.1 + 0.01 * 25 + ring_seconds(4, 10**7, LINK)
    assert four.samples_each == 25
    assert four.step_seconds.mid == pytest.approx(step)
    assert four.samples_per_second.mid == pytest.approx(100 / step)
    assert four.efficiency.mid == pytest.approx(1.1 / step / 4)


def test_the_largest_slice_decides() -> None:
    assert scaled(WORK, CLUSTER, 3).samples_each == 34


def test_failures_cost_half_of_what_lies_between_checkpoints() -> None:
    failing = replace(CLUSTER, host_failure_seconds=10_000.0, checkpoint_seconds=600.0, restart_seconds=100.0)
    ten = scaled(WORK, failing, 10)
    assert ten.availability == pytest.approx(1 / (1 + 10 * 400 / 10_000))
    assert ten.samples_per_second.mid == pytest.approx(
        scaled(WORK, CLUSTER, 10).samples_per_second.mid * ten.availability
    )


def test_a_host_is_paid_by_the_hour() -> None:
    paid = replace(CLUSTER, per_host=2, host_hour_price=3.6)
    four = scaled(WORK, paid, 4)
    assert four.hosts == 2
    assert four.epoch_seconds is not None
    assert four.epoch_price is not None
    assert four.epoch_price.mid == pytest.approx(four.epoch_seconds.mid * 2 * 0.001)


def test_ends_of_ranges_are_in_order() -> None:
    cost = StepCost(Line(0.09, 0.009), LINE, Line(0.11, 0.011), 0.5, (0.9, 1.0, 1.0, 1.3))
    for row in forecast(replace(WORK, step=cost), CLUSTER, 64).grown:
        for span in (row.step_seconds, row.samples_per_second, row.efficiency, row.waiting_seconds):
            assert span.low <= span.mid <= span.high


def test_the_same_batch_feeds_no_more_workers_than_it_has_samples() -> None:
    found = forecast(WORK, CLUSTER, 1000)
    assert [row.workers for row in found.same] == [1, 2, 4, 8, 16, 32, 64]
    assert [row.workers for row in found.grown][-2:] == [512, 1000]
    assert all(row.samples_each == 100 for row in found.grown)


def test_where_more_do_not_pay() -> None:
    found = forecast(WORK, CLUSTER, 64)
    speeds = {row.workers: row.samples_per_second.mid for row in found.same}
    assert speeds[2 * found.pays_up_to] < 1.1 * speeds[found.pays_up_to]
    assert speeds[found.pays_up_to] >= 1.1 * speeds[found.pays_up_to // 2]


def test_where_all_pay_the_most_is_told() -> None:
    line = Line(0.0, 1.0)
    free = replace(WORK, gradient_bytes=1, step=StepCost(line, line, line, 0.0, (1.0, 1.0)))
    assert forecast(free, CLUSTER, 16).pays_up_to == 16
