"""What a live comparison adds up from its blocks."""

from __future__ import annotations

import pytest

from hasten.bench.comparing.abba_blocks import Comparison
from hasten.bench.comparing.steps import Rhythm
from hasten.records.plan import BASELINE, Plan

RHYTHM = Rhythm(evaluations=0, restarts=0, cycle=1, cycle_seconds=0.01)


@pytest.mark.parametrize(
    ("of_a", "of_b", "found"),
    [
        ([0.0, 0.0, 0.0], [6.0, 0.1, 0.1], 6.0),
        ([0.0, 0.0, 0.0], [0.0, 9.0, 9.0], 9.0),
        ([0.1, 0.1, 0.1], [0.1, 0.1, 0.56], 0.0),
        ([0.1, 0.9, 0.1], [0.6, 0.1, 0.1], 0.5),
        ([], [2.0], 2.0),
        ([2.0], [1.0], 0.0),
    ],
    ids=["at first", "in a later step", "late by chance", "of a by chance", "a was not", "a's is more"],
)
def test_set_up_is_what_the_first_time_takes_and_one_slow_switch_is_not(
    of_a: list[float], of_b: list[float], found: float
) -> None:
    """A fused update was not kept because of half a second that one switch of many took."""
    comparison = Comparison(RHYTHM, 40.0)
    for seconds in of_a:
        comparison.took_up(seconds, is_b=False)
    for seconds in of_b:
        comparison.took_up(seconds, is_b=True)
    trial = comparison.trial(BASELINE, Plan({"fused_optimizer": {}}), 1.0, None)
    assert trial.setup_seconds == pytest.approx(found)
