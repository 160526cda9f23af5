"""What is said of more machines."""

from __future__ import annotations

from dataclasses import replace

from hasten.records.scaling import Cluster, Line, Link, StepCost, Workload
from hasten.report.scaling import scaling_json, scaling_lines
from hasten.scaling.prediction import forecast

LINK = Link(latency_seconds=50e-6, bytes_per_second=1.25e9)
LINE = Line(0.01, 0.001)
COST = StepCost(LINE, LINE, LINE, 0.5, (1.0, 1.02), ((32, 0.042), (64, 0.074)))
WORK = Workload(COST, batch=64, gradient_bytes=8 * 2**20, epoch_samples=60_000)
CLUSTER = Cluster(per_host=1, within=LINK, between=LINK)


def said(work: Workload = WORK, cluster: Cluster = CLUSTER, most: int = 256) -> str:
    return "\n".join(scaling_lines(forecast(work, cluster, most), ["something"]))


def test_what_was_measured_and_what_follows() -> None:
    text = said()
    assert "a step takes 42 ms for 32, 74 ms for 64 samples; the backward pass is 50% of it." in text
    assert "10 ms of a step do not depend on its samples" in text
    assert "Workers exchange 8 MiB of gradients in each step." in text
    assert "More than 64 workers would leave some without a sample." in text
    assert "This assumes something; workers as fast as this machine;" in text
    assert "10 Gbit/s and 50 us between hosts; that no host fails." in text


def test_of_one_batch_size_it_says_what_is_unknown() -> None:
    work = replace(WORK, step=replace(COST, measured=((64, 0.074),)))
    assert "How a step depends on its samples is unknown" in said(work)


def test_cost_has_a_column_where_there_is_a_price() -> None:
    assert "cost" not in said()
    assert "cost" in said(cluster=replace(CLUSTER, host_hour_price=2.0))


def test_json_holds_every_row() -> None:
    content = scaling_json(forecast(WORK, CLUSTER, 8), ["something"])
    assert [row["workers"] for row in content["same"]] == [1, 2, 4, 8]
    assert content["workload"]["gradient_bytes"] == 8 * 2**20
    assert content["assumed"] == ["something"]
