"""How long a start took: without waiting for others, and without what is paid for once."""

from __future__ import annotations

import time

import pytest

from hasten.inside.worker.start_times import StartTimes


def test_waiting_and_set_up_are_no_part_of_a_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "time", lambda: 110.0)
    start = StartTimes(100.0, own_seconds=0.2)
    assert (start.to_first_step, start.without_set_up) == (0.0, 0.0)
    start.first_step_ended(waited=1.0, set_up=3.0, spared=2.0)  # one second of the set-up was taken here
    assert (start.to_first_step, start.without_set_up) == (9.0, 8.0)
    start.first_step_ended(waited=1.0, set_up=30.0, spared=0.0)
    assert start.without_set_up == 0.0
