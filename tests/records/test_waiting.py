"""Threads that wait for a processor that other programs have."""

from __future__ import annotations

import pytest

from hasten.inside.techniques.threads import Threads
from hasten.records.observation import Processors
from hasten.records.waiting import threads_beside_others, waiting_threads
from tests.bench.made_up import facts


@pytest.mark.parametrize(
    ("cpus", "threads", "used", "beside"),
    [
        (2, 2, Processors(1.1, 0.0, waiting=1.0, others=0.9), 1),
        (8, 8, Processors(6.9, 0.0, waiting=0.9, others=1.1), 7),
        (8, 8, Processors(5.0, 0.0, waiting=2.1, others=3.0), 5),
        (64, 64, Processors(48.0, 0.0, waiting=0.4, others=0.1), None),  # it waits to be woken
        (4, 16, Processors(3.6, 0.0, waiting=12.0, others=0.4), None),  # for each other
        (2, 2, Processors(1.5, 0.0, waiting=0.5, others=0.0), None),  # for a quota's next period
        (2, 1, Processors(0.6, 0.0, waiting=0.4, others=1.4), None),
        (64, 32, Processors(30.0, 0.0, waiting=0.4, others=10.0), None),  # there are enough for all
        (64, 56, Processors(48.0, 0.0, waiting=6.0, others=12.0), 50),
    ],
)
def test_as_many_threads_as_need_not_wait(
    cpus: int, threads: int, used: Processors, beside: int | None
) -> None:
    seen = facts({"logical_cpus": cpus, "physical_cores": cpus}, threads=threads, processors=used)
    assert threads_beside_others(seen) == beside
    assert (waiting_threads(seen) is None) is (beside is None)
    if beside is not None:
        assert Threads.options(seen)[0] == {"count": beside}, "tried first"


@pytest.mark.parametrize(
    ("quota", "used", "beside"),
    [
        (4.0, Processors(3.9, 0.0, waiting=0.5, others=60.5), None),  # it had all of its quota
        (4.0, Processors(2.9, 1.0, waiting=1.5, others=60.5), None),  # with its loader's
        (4.0, Processors(3.0, 0.0, waiting=1.0, others=60.5), 3),
        (4.0, Processors(3.0, 0.0, waiting=1.0, others=30.0), None),  # 34 processors had nothing to do
    ],
)
def test_a_quota_on_a_busy_host(quota: float, used: Processors, beside: int | None) -> None:
    machine = {"logical_cpus": 64, "physical_cores": 64, "quota_cpus": quota}
    assert threads_beside_others(facts(machine, threads=4, processors=used)) == beside
