"""What a plan says of processes, and what the command line says against it."""

from __future__ import annotations

import pytest

from hasten.cli import starting
from hasten.inside.job import Job
from hasten.launch.ranks_of_plan import Wish, wish_of
from hasten.records.plan import Plan

from ..bench.made_up import machine

LAID_OUT = Plan({"processes": {"count": 2, "threads": 4, "bind": "numa", "sync_batch_norm": True}})


@pytest.mark.parametrize(
    ("count", "wish"),
    [
        pytest.param(None, Wish(2, "", True, 4, "numa"), id="the plan's own"),
        pytest.param(2, Wish(2, "", True, 4, "numa"), id="the same number"),
        pytest.param(3, Wish(3, "", True), id="another number, for which the layout means nothing"),
    ],
)
def test_another_number_of_processes_has_no_layout(count: int | None, wish: Wish) -> None:
    job = starting.in_several(Job(("t.py",), machine(), LAID_OUT), count, None)
    assert wish_of(job.plan) == wish
