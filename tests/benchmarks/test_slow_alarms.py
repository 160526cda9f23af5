"""Runs that go as planned are left in peace: simulated ones, by seeds that do not change."""

from __future__ import annotations

import pytest
from benchmarks.slow_alarms import MACHINES, STEP_SECONDS, alarms

RUNS = 120  # of 10,000 steps, for each machine and length of a step: 1080 in all


@pytest.mark.thorough
def test_of_a_thousand_runs_as_planned_one_at_most_is_told_that_it_is_slower() -> None:
    told = [alarms(machine, step, RUNS) for machine in MACHINES for step in STEP_SECONDS]
    assert sum(found["than before"] + found["than tuned"] for found in told) <= 1


def test_what_becomes_slower_by_a_third_is_told_where_others_do_not_come_by_all_the_time() -> None:
    quiet, usual, _ = MACHINES
    for machine in (quiet, usual):
        assert alarms(machine, 0.05, 20, slower=1.33)[""] <= 3
