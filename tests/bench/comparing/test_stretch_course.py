"""Where a run is cut into stretches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from hasten.bench.comparing.steps import GONE_THROUGH, STEPS, Rhythm, rhythm_of
from hasten.bench.comparing.stretch_course import Course, _period, comes_by, course_of, rarest, unseen
from hasten.records.observation import Step
from hasten.records.trial import Unseen
from tests.bench.made_up import step

RHYTHM = Rhythm(evaluations=0, restarts=0, cycle=1, cycle_seconds=0.01)
EVALUATION, EPOCHS, SAVING = ("evaluation",), ("first batches", "epoch turns"), ("saving",)


def run(steps: int, epoch: int, between: float, evaluated_every: int = 1) -> list[Step]:
    """``between`` seconds fall into the first step of each epoch but the first."""
    found = []
    for number in range(steps):
        if number and number % epoch == 0:
            evaluated = (number // epoch) % evaluated_every == 0
            found.append(step(0.01 + between, saves=1, restarts=1, evaluations=int(evaluated)))
        else:
            found.append(step(0.01, restarts=int(number == 0)))
    return found


def cuts(
    steps: Sequence[Step], parts: tuple[str, ...] = EVALUATION, **more: object
) -> tuple[int, ...] | None:
    found = course_of(steps, parts, RHYTHM, **more)  # type: ignore[arg-type]
    return found.cuts if found is not None else None


def test_a_stretch_ends_with_the_step_into_which_it_fell() -> None:
    assert cuts(run(41, 20, 3.0)) == (21, 41)


def test_what_did_not_come_by_twice_has_no_course() -> None:
    assert cuts(run(40, 20, 3.0)) is None
    assert cuts(run(19, 20, 3.0), last=True) is None


def test_the_beginning_of_the_training_is_none_of_them() -> None:
    """The first step begins an epoch, as every training does."""
    assert cuts(run(40, 20, 3.0), EPOCHS) is None
    assert cuts(run(41, 20, 3.0), EPOCHS) == (21, 41)


def test_short_stretches_are_joined_to_a_second_each() -> None:
    """Epochs of 0.5 s: two make a stretch, and each process is timed for two of these."""
    assert cuts(run(101, 20, 0.3)) == (21, 61, 101)
    assert cuts(run(100, 20, 0.3)) is None


def test_where_there_is_no_more_shorter_ones_have_to_do() -> None:
    assert cuts(run(100, 20, 0.3), last=True) == (21, 41, 61)
    assert cuts(run(60, 20, 0.3), last=True) == (21, 41)


def test_long_stretches_may_begin_as_soon_as_the_process_is_warm() -> None:
    steps = run(41, 20, 3.0)
    assert cuts(steps, early=True) == (10, 30)
    found = course_of(steps, EVALUATION, RHYTHM, early=True)
    assert found == Course((10, 30), pytest.approx(0.09), pytest.approx(3.2))  # type: ignore[arg-type]
    assert found is not None
    assert found.process_seconds == pytest.approx(3.29)


def test_but_not_where_something_is_left_to_be_done_afterwards() -> None:
    """A save may go on in the background."""
    assert cuts(run(41, 20, 3.0), SAVING, early=True) == (21, 41)


def test_nor_where_the_first_came_by_at_another_distance() -> None:
    """An evaluation to see that all is well, and then one every 40 steps: two of these show it."""
    steps = [step(3.0, evaluations=1) if n in (14, 54, 94) else step() for n in range(100)]
    assert cuts(steps[:60], early=True) is None
    begin, end = cuts(steps, early=True) or (0, 0)
    assert end - begin == 40
    assert sum(one.evaluations for one in steps[begin:end]) == 1


def test_saves_are_told_of_a_script_without_loaders_or_evaluations() -> None:
    steps = [step(0.51 if n % 80 == 79 else 0.01, restarts=0, saves=int(n % 80 == 79)) for n in range(400)]
    assert cuts(steps, SAVING) == (80, 160, 240)
    assert rhythm_of(steps).regular(steps[0])
    assert not rhythm_of(steps).regular(steps[79])
    assert cuts([step(saves=1) for _ in range(400)], EVALUATION) is None


def test_saves_that_every_step_has_are_none_that_come_by() -> None:
    usual = rhythm_of([step(saves=1)] * 40)
    assert usual.regular(step(saves=1))
    assert not comes_by(step(saves=1), "saving", usual)


def test_what_begins_late_is_waited_for() -> None:
    assert cuts(run(81, 20, 3.0), late=30) == (41, 61)
    assert cuts(run(81, 20, 3.0), late=30, early=True) == (30, 50)


def test_steps_before_the_process_is_warm_are_none_of_a_stretch() -> None:
    assert cuts(run(31, 5, 3.0)) == (11, 16)


def test_of_several_parts_the_rarest_decides() -> None:
    """Each epoch is saved, every other one evaluated."""
    steps = run(80, 20, 3.0, evaluated_every=2)
    assert rarest(steps, ("saving", "evaluation"), RHYTHM) == "evaluation"
    assert cuts(steps, ("saving", "evaluation")) is None
    assert cuts(run(81, 20, 3.0, evaluated_every=2), ("saving", "evaluation")) == (41, 81)


def test_evaluations_that_every_step_has_are_none_that_come_by() -> None:
    usual = Rhythm(evaluations=2, restarts=0, cycle=1, cycle_seconds=0.01)
    assert not comes_by(step(evaluations=2), "evaluation", usual)
    assert comes_by(step(evaluations=3), "evaluation", usual)
    assert comes_by(step(evaluations=3), "garbage", usual)
    assert not comes_by(step(evaluations=3), "epoch turns", usual)


def test_where_every_step_has_its_own_evaluation_any_steps_are_compared() -> None:
    """Once it is known that no other will come."""
    steps = [step(0.1, evaluations=1) for _ in range(60)]
    usual = replace(RHYTHM, evaluations=1)
    whole_graph = replace(usual, unit=GONE_THROUGH)
    for rhythm in (usual, whole_graph):
        assert course_of(steps, EVALUATION, rhythm) is None
        course = course_of(steps, EVALUATION, rhythm, last=True)
        assert course is not None
        assert course.lengths == (10, 10)
        assert unseen(steps, EVALUATION, rhythm, 0.0)[0] == Unseen("evaluation", 0.0, 59)
    assert course_of(steps, SAVING, whole_graph) is None


def test_but_those_beyond_it_where_there_are_any() -> None:
    """A teacher answers in every step, and the student is evaluated now and then."""
    steps = [step(1.1, evaluations=2 if n % 20 == 0 else 1) for n in range(1, 61)]
    course = course_of(steps, EVALUATION, replace(RHYTHM, evaluations=1, unit=GONE_THROUGH))
    assert course is not None
    assert course.cuts == (20, 40)


def test_what_every_step_has_is_not_the_rarest() -> None:
    usual = replace(RHYTHM, evaluations=1)
    steps = [step(0.1, evaluations=1, saves=int(n % 20 == 19)) for n in range(60)]
    assert rarest(steps, ("evaluation", "saving"), usual) == "saving"


def test_collections_of_a_training_without_epochs_are_compared_over_any_steps() -> None:
    """As of a solver's loop that makes its own batches: it never comes to an epoch's turn."""
    endless = replace(RHYTHM, unit=STEPS, cycle_seconds=1.2)
    steps = [step(1.2) for _ in range(40)]
    assert cuts(steps, ("garbage",)) is None
    course = course_of(steps, ("garbage",), endless, late=2)
    assert course is not None
    begin = course.cuts[0]
    assert course.cuts == (begin, begin + 1, begin + 2)
    assert 2 <= begin < 10  # slow steps are warm sooner
    assert course_of(steps, ("evaluation",), endless) is None


@pytest.mark.attack("truth")
@pytest.mark.parametrize(
    ("marks", "period"),
    [
        ([100, 200], 1),
        ([101, 201, 302], 1),
        ([101, 111], None),  # a short way: what follows is not seen yet
        ([101, 111, 211], None),
        ([101, 111, 211, 221], 2),
        ([375, 500, 625], 1),  # none in the first epochs
        ([3, 6, 9], 1),
    ],
)
def test_stretches_are_whole_periods_of_what_comes_by(marks: list[int], period: int | None) -> None:
    assert _period(marks) == period
