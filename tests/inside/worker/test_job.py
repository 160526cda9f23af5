"""What a job says of itself."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hasten.inside.job import Job, OwnGroup
from hasten.machine import this_machine
from hasten.records.plan import Plan
from hasten.records.run_checkpoints import RunCheckpoints

PLAIN = Job(("train.py",), this_machine())


@pytest.mark.parametrize(
    ("job", "watched"),
    [
        (PLAIN, False),
        (replace(PLAIN, own_group=OwnGroup(timeout_seconds=60.0)), False),
        (replace(PLAIN, checkpoints=RunCheckpoints("/kept", 60.0)), False),
        (replace(PLAIN, plan=Plan({"malloc": {}})), True),
        (replace(PLAIN, descriptor=3), True),
    ],
    ids=["plain", "ranks of its own", "checkpoints", "a plan", "a trial"],
)
def test_a_training_is_watched_where_somebody_has_a_use_for_it(job: Job, watched: bool) -> None:
    assert job.is_watched is watched
