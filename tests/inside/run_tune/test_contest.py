"""Who wins of two plans in a running training, by what their blocks took."""

from __future__ import annotations

import random

import pytest

from hasten.inside.observing.raw_step import RawStep
from hasten.inside.run_tune.contest import Contest, step_seconds, verdict_on


def decided(factor: float, noise: float = 0.0, seed: int = 0) -> tuple[str, int]:
    """What b, which takes ``factor`` times as long, comes to; and after how many blocks."""
    contest, chance = Contest(), random.Random(seed)
    for count in range(1, 1000):
        seconds = 0.01 * (factor if contest.next_is_b else 1.0) * (1 + noise * chance.uniform(-1, 1))
        verdict = contest.block(seconds)
        if verdict:
            return verdict, count
    raise AssertionError("it never ends")


def test_a_clear_gain_is_taken_after_four_comparisons() -> None:
    assert decided(0.8, 0.02) == ("faster", 16)


def test_what_is_clearly_slower_is_dropped_after_one() -> None:
    assert decided(1.5, 0.02) == ("slower", 4)
    assert decided(1.1, 0.01) == ("slower", 8)


def test_the_same_twice_is_hardly_ever_a_gain() -> None:
    wrong = sum(decided(1.0, 0.1, seed)[0] == "faster" for seed in range(300))
    assert wrong <= 12


def test_it_ends_whatever_the_noise() -> None:
    assert all(decided(1.0, 0.9, seed)[1] <= 40 for seed in range(50))


def test_a_drift_of_the_machine_is_no_gain() -> None:
    contest, slower = Contest(), 1.0
    while not (verdict := contest.block(0.01 * slower)):
        slower *= 1.02  # each block takes longer than the one before
    assert verdict == "no gain"


def test_blocks_that_tell_nothing_are_begun_anew_and_not_for_ever() -> None:
    contest = Contest()
    assert contest.block(0.01) == ""
    assert contest.next_is_b
    assert contest.block(None) == ""
    assert not contest.next_is_b
    assert [contest.block(None) for _ in range(9)][-1] == "no gain"


@pytest.mark.parametrize(("log_ratios", "verdict"), [([0.5], "slower"), ([-0.5], ""), ([-0.5] * 3, "")])
def test_few_comparisons_can_only_drop(log_ratios: list[float], verdict: str) -> None:
    assert verdict_on(log_ratios) == verdict


def made(seconds: float, **more: object) -> RawStep:
    return RawStep(seconds=seconds, **more)  # type: ignore[arg-type]


def test_what_fell_into_a_step_besides_does_not_count() -> None:
    steps = [made(0.01), made(5.0, evaluations=3), made(0.02), made(9.0, set_up=1.0), made(0.03)]
    assert step_seconds(steps, 1, (0, 0)) == 0.02
    assert step_seconds(steps[:2], 1, (0, 0)) is None


def test_what_is_waited_for_now_and_then_counts_by_its_mean() -> None:
    """A median would be of the steps that found their batch ready, or of the others."""
    ready, late = made(0.01), made(0.07, data=0.06)
    assert step_seconds([ready, ready, late] * 3, 1, (0, 0)) == pytest.approx(0.03)


def test_steps_of_a_cycle_are_told_together() -> None:
    assert step_seconds([made(0.01), made(0.03)] * 3, 2, (0, 0)) == pytest.approx(0.02)
