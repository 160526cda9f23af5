"""From single steps to the time of a block."""

from __future__ import annotations

import math

import pytest

from hasten.bench.steps import Rhythm, measure, regular_steps, rhythm_of, spoilt
from hasten.inside.observer import cycle_length
from hasten.records.observation import Step
from tests.bench.made_up import step

PLAIN = Rhythm(evaluations=0, restarts=0, cycle=1, cycle_seconds=0.01)


def test_the_rhythm_is_the_most_frequent_step() -> None:
    steps = [step(0.02) for _ in range(9)] + [step(0.5, evaluations=30, restarts=2)]
    assert rhythm_of(steps) == Rhythm(evaluations=0, restarts=0, cycle=1, cycle_seconds=0.02)


def test_a_step_with_an_evaluation_in_it_is_not_regular() -> None:
    usual, evaluating, restarting = step(), step(evaluations=1), step(restarts=1)
    assert regular_steps([usual, evaluating, restarting, usual], PLAIN) == [usual, usual]


def test_a_forward_pass_without_gradients_in_every_step_is_regular() -> None:
    steps = [step(evaluations=2) for _ in range(20)]
    rhythm = rhythm_of(steps)
    assert rhythm.evaluations == 2
    assert regular_steps([*steps, step(evaluations=3), step(evaluations=1)], rhythm) == [
        *steps,
        step(evaluations=1),
    ]


def test_a_loader_begun_anew_in_every_step_is_regular() -> None:
    steps = [step(restarts=1) for _ in range(20)]
    assert regular_steps(steps, rhythm_of(steps)) == steps


TWO_OPTIMIZERS = [(0, 1, 1), (1, 2, 1)]
FIVE_CRITICS = [(0, 2, 1)] * 5 + [(1, 1, 1)]


@pytest.mark.parametrize(
    ("block", "length"), [([(0, 1, 1)], 1), (TWO_OPTIMIZERS, 2), ([(0, 4, 4)], 1), (FIVE_CRITICS, 6)]
)
def test_the_cycle_is_the_shortest_repeating_block(block: list[tuple[int, int, int]], length: int) -> None:
    assert cycle_length(block * 6) == length


def test_a_remainder_at_an_epochs_end_does_not_hide_the_cycle() -> None:
    signatures = TWO_OPTIMIZERS * 15
    signatures[11] = (1, 1, 1)
    assert cycle_length(signatures) == 2


def test_without_a_pattern_every_step_is_a_cycle() -> None:
    assert cycle_length([(n * n % 7, n % 3 + 1, 1) for n in range(40)]) == 1


def test_the_rhythm_of_two_optimizers_is_a_cycle_of_both() -> None:
    generator = [step(0.03, signature=(1, 2, 1)) for _ in range(10)]
    critic = [step(0.01, signature=(0, 1, 1)) for _ in range(10)]
    steps = [s for pair in zip(critic, generator, strict=True) for s in pair]
    rhythm = rhythm_of(steps)
    assert rhythm.cycle == 2
    assert rhythm.cycle_seconds == pytest.approx(0.04)


def test_the_first_cycle_of_a_block_does_not_count() -> None:
    block = measure([step(9.0), step(0.02), step(0.02)], PLAIN)
    assert block is not None
    assert block.step_seconds == pytest.approx(0.02)


def test_as_many_cycles_are_discarded_as_asked() -> None:
    steps = [step(9.0), step(9.0), step(0.02), step(0.02)]
    block = measure(steps, PLAIN, discard=2)
    assert block is not None
    assert block.step_seconds == pytest.approx(0.02)


def test_a_smaller_last_batch_is_not_taken_for_a_faster_step() -> None:
    """Half the samples in half the time is the same speed."""
    smaller = [step(), *(step(0.005, samples=4) for _ in range(3)), step(0.01), step(0.01)]
    block = measure(smaller, PLAIN)
    assert block is not None
    assert block.sample_seconds == pytest.approx(0.01 / 8)


def test_without_samples_a_step_is_the_unit() -> None:
    block = measure([step(0.02, samples=None) for _ in range(5)], PLAIN)
    assert block is not None
    assert block.sample_seconds == pytest.approx(0.02)


def test_times_are_of_whole_cycles() -> None:
    """A cycle of a slow and a fast step; the discarded one and the half one at the end do not count."""
    rhythm = Rhythm(evaluations=0, restarts=0, cycle=2, cycle_seconds=0.04)
    steps = [step(5.0), step(5.0), *[step(0.03), step(0.01)] * 3, step(5.0)]
    block = measure(steps, rhythm)
    assert block is not None
    assert block.step_seconds == pytest.approx(0.02)
    assert block.sample_seconds == pytest.approx(0.04 / 16)


def test_a_cycle_with_an_evaluation_in_it_does_not_count() -> None:
    steps = [step(), step(0.02), step(7.0, evaluations=1), step(0.02), step(0.02)]
    rhythm = Rhythm(evaluations=0, restarts=0, cycle=1, cycle_seconds=0.02)
    block = measure(steps, rhythm)
    assert block is not None
    assert block.step_seconds == pytest.approx(0.02)
    pairs = Rhythm(evaluations=0, restarts=0, cycle=2, cycle_seconds=0.04)
    assert measure([step(), *steps], pairs) is None  # one whole cycle of the two is left


@pytest.mark.parametrize(
    "steps",
    [
        [],
        [step(), step()],
        [step(), step(), step(evaluations=1)],
        [step(restarts=1) for _ in range(9)],
    ],
)
def test_fewer_than_two_regular_cycles_cannot_be_timed(steps: list[Step]) -> None:
    assert measure(steps, PLAIN) is None


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_loss_that_is_no_number_is_seen(bad: float) -> None:
    rhythm = Rhythm(0, 0, 1, 0.01)
    assert spoilt([step(), step(losses=()), step(losses=(0.5, 2.0))], rhythm) == ""
    assert spoilt([step(), step(losses=(0.5, bad)), step()], rhythm) == "the loss is no longer a number"


def test_a_loss_that_was_there_must_still_be() -> None:
    unseen = [step(losses=())] * 3
    assert spoilt(unseen, Rhythm(0, 0, 1, 0.01)) == "the loss can no longer be seen"
    assert spoilt(unseen, rhythm_of(unseen)) == ""
