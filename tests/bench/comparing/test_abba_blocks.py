"""What a live comparison adds up from its blocks."""

from __future__ import annotations

import pytest

from hasten.bench.comparing.abba_blocks import Comparison, TrialFailed, Untimable
from hasten.bench.comparing.steps import TOO_FEW_REGULAR, Rhythm
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


@pytest.mark.parametrize(("of_a", "never"), [(0, False), (5, False), (6, True), (24, True)])
def test_blocks_of_one_plan_alone_say_nothing_of_other_comparisons(of_a: int, never: bool) -> None:
    """What b does to steps, no other plan need do."""
    comparison = Comparison(RHYTHM, 40.0)
    comparison.untimed_a = of_a
    for _ in range(23):
        comparison.add(None, contended=False)
    with pytest.raises(TrialFailed, match=TOO_FEW_REGULAR) as failed:
        comparison.add(None, contended=False)
    assert isinstance(failed.value, Untimable) is never


@pytest.mark.parametrize("cycle_seconds", [0.01, 0.3])
@pytest.mark.parametrize(("timed", "most"), [(0, 8), (1, 16), (2, 24)])
def test_slow_steps_of_which_hardly_any_can_be_timed_are_soon_given_up(
    cycle_seconds: float, timed: int, most: int
) -> None:
    """Of a detector with two steps an epoch, 24 attempts took 100 s for each technique."""
    comparison = Comparison(Rhythm(0, 0, cycle=1, cycle_seconds=cycle_seconds), 40.0)
    for _ in range(timed):
        comparison.add(0.0, contended=False)
    for _ in range((most if cycle_seconds > 0.1 else 24) - 1):
        comparison.add(None, contended=False)
    with pytest.raises(TrialFailed, match=TOO_FEW_REGULAR):
        comparison.add(None, contended=False)
