"""Trainings are distinguished by which optimizers stepped when."""

from __future__ import annotations

import pytest

from hasten.inside.observing.trainings import Trainings


def seen(*optimizers: int) -> Trainings:
    found = Trainings()
    for optimizer in optimizers:
        found.step_ended(optimizer)
    return found


@pytest.mark.parametrize(
    ("optimizers", "steps"),
    [
        ((), ()),
        ((-1,) * 40, (40,)),
        ((0,) * 50 + (1,) * 30 + (2,) * 20, (50, 30, 20)),
        ((0, 1) * 20, (40,)),  # a GAN
        ((0,) * 30 + (1, 0) * 20, (70,)),  # whose generator is warmed up
        ((0,) * 30 + (1, 2) * 20, (30, 40)),  # by an optimizer of its own
        ((0, 0, 0, 0, 0, 1) * 5, (30,)),  # a critic's steps between
        ((0, 0, 0, 0, 0, 1), (6,)),  # of which one round was seen
        (tuple(range(30)), (30,)),  # an optimizer for each step
        ((0,) * 30 + (1,) * 3, (33,)),  # too few to tell
    ],
)
def test_one_after_the_other_or_by_turns(optimizers: tuple[int, ...], steps: tuple[int, ...]) -> None:
    assert seen(*optimizers).steps() == steps


def test_an_optimizers_first_step_is_told() -> None:
    found = Trainings()
    assert [found.step_ended(one) for one in (0, 0, 1, 0, 1)] == [True, False, True, False, False]
