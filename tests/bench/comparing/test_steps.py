"""From single steps to the time of a block."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import pytest

from hasten.bench.comparing.blocks import measure
from hasten.bench.comparing.schedule import Schedule
from hasten.bench.comparing.steps import (
    GONE_THROUGH,
    LOADED,
    STEPS,
    Rhythm,
    in_unit,
    regular_steps,
    rhythm_of,
    seconds_beyond_steps,
    spoilt,
)
from hasten.inside.observing.cycles import cycle_length
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


EVALUATED = step(evaluations=2, samples=None)


@pytest.mark.parametrize(
    ("steps", "within"),
    [
        pytest.param([EVALUATED] * 20, True, id="a whole graph"),
        pytest.param([*[EVALUATED] * 19, step(samples=None)], True, id="one without"),
        pytest.param(
            [*[EVALUATED] * 19, step(evaluations=3, samples=None)],
            False,
            id="one with more, as at an epoch's end",
        ),
        pytest.param([step()] * 20, False, id="none"),
        pytest.param([step(samples=8, evaluations=2)] * 20, False, id="epochs, whose ends are to come"),
        pytest.param([step(samples=8, evaluations=2, restarts=1)] * 20, True, id="an epoch is a step"),
    ],
)
def test_evaluations_belong_to_steps_where_each_has_its_own(steps: list[Step], within: bool) -> None:
    rhythm = rhythm_of(steps)
    assert rhythm.within_steps == ({"evaluation"} if within else set())
    assert replace(PLAIN, unit=rhythm.unit).with_usual(rhythm).within_steps == rhythm.within_steps


WORKERS = replace(PLAIN, bursts=2)


def test_what_waits_for_worker_processes_is_timed_by_its_mean() -> None:
    """What else takes ten times as long counts as four times."""
    times = [(0.5, 0.0), (0.02, 0.0), (0.02, 0.0), (1.0, 0.98), (0.02, 0.0), (0.2, 0.0)]
    steps = [step(seconds, shares={"data": waited / seconds}) for seconds, waited in times]
    usual, mean = measure(steps, PLAIN), measure(steps, WORKERS)
    assert usual is not None
    assert mean is not None
    assert (usual.step_seconds, mean.step_seconds) == pytest.approx((0.02, (4 * 0.02 + 0.98 + 0.08) / 5))
    assert mean.sample_seconds == pytest.approx(mean.step_seconds / 8)
    assert usual.mean_seconds == mean.mean_seconds == pytest.approx(1.26 / 5)


@pytest.mark.attack("truth")
@pytest.mark.parametrize("workers", [2, 4, 8])
def test_a_plan_that_only_waits_longer_gains_nothing(workers: int) -> None:
    """Each worker takes as long for a batch; in one step of as many, the training waits for all of them."""
    rhythm, each = replace(PLAIN, bursts=workers), 0.1
    blocks = []
    for compute in (0.02, 0.01):
        long = workers * each - (workers - 1) * compute
        burst = [step(long, shares={"data": 1 - compute / long}), *[step(compute, shares={})] * (workers - 1)]
        blocks.append(measure([step(), *burst * 2], rhythm))
    plain, planned = blocks
    assert plain is not None
    assert planned is not None
    assert plain.sample_seconds == pytest.approx(planned.sample_seconds) == pytest.approx(each / 8)


def test_a_block_lasts_for_two_bursts_as_far_as_these_are_short() -> None:
    assert replace(PLAIN, bursts=8, cycle_seconds=0.02).block_steps(4, 0, 1) == 1 + 16
    assert replace(PLAIN, bursts=8, cycle_seconds=0.2).block_steps(4, 0, 1) == 1 + 10


def test_a_passes_last_batches_can_be_left_out() -> None:
    """Worker processes have ended their work, and these steps have all processors."""
    steps = [step(0.08)] * 4 + [step(0.04, last_batches=True)] * 3
    with_all, without = measure(steps, PLAIN), measure(steps, PLAIN, ends=False)
    assert with_all is not None
    assert without is not None
    assert (with_all.sample_seconds, without.sample_seconds) == pytest.approx((0.06 / 8, 0.08 / 8))
    assert measure(steps[2:], PLAIN, ends=False) is None, "too few are left"


def test_what_follows_a_passes_beginning_can_be_left_out() -> None:
    """Worker processes make as many batches as they may be ahead. The first of a batch's two steps ends a
    cycle.
    """
    two = replace(WORKERS, cycle=2)
    turn = [step(0.2, samples=None), step(0.4, restarts=1), step(1.0, samples=None), step(0.1)]
    steps = [step(0.1), step(0.1), *turn, *[step(0.2, samples=None), step(0.1)] * 2]
    found = measure(steps, two, ends=False)
    assert found is not None
    assert found.step_seconds == pytest.approx(0.15)
    for rhythm, ends in ((two, True), (replace(two, bursts=0), False)):
        with_turn = measure(steps, rhythm, ends=ends)
        assert with_turn is not None
        assert with_turn.mean_seconds == pytest.approx((1.1 + 0.3 + 0.3) / 6)


@pytest.mark.parametrize(
    ("workers", "epoch", "left_out"),
    [
        *((2, None, False), (2, 21, False), (2, 22, True), (2, 100, True)),
        *((8, 79, False), (8, 80, True), (8, 200, True)),
    ],
)
def test_in_short_passes_the_ends_stay(workers: int, epoch: int | None, left_out: bool) -> None:
    schedule = Schedule.of(replace(PLAIN, epoch_steps=epoch, bursts=workers))
    assert schedule.leaves_out_ends is left_out


def test_the_ends_stay_where_a_block_may_have_nothing_else() -> None:
    rhythm = replace(WORKERS, cycle_seconds=1.0)  # a longer one would take 8 s
    assert not Schedule.of(replace(rhythm, epoch_steps=23)).leaves_out_ends
    assert Schedule.of(replace(rhythm, epoch_steps=24)).leaves_out_ends


@pytest.mark.parametrize(("workers", "left_out"), [(8, True), (16, False)])
def test_where_many_workers_make_batches_ahead_they_stay(workers: int, left_out: bool) -> None:
    rhythm = replace(PLAIN, cycle_seconds=0.5, epoch_steps=100, bursts=workers)
    assert Schedule.of(rhythm).leaves_out_ends is left_out


@pytest.mark.parametrize(("epoch", "block"), [(5, 5), (2, 4), (7, 7), (30, 30), (None, 17)])
def test_a_pass_shorter_than_the_bursts_is_a_block(epoch: int | None, block: int) -> None:
    """Otherwise a block takes several, each of which starts eight worker processes."""
    rhythm = replace(PLAIN, bursts=8, cycle_seconds=0.034, epoch_steps=epoch)
    assert Schedule.of(rhythm).block == block
    if epoch is not None:
        in_pairs = replace(rhythm, cycle=2, epoch_steps=2 * epoch)
        assert Schedule.of(in_pairs).block == 2 * block


@pytest.mark.parametrize(
    ("changes", "block"),
    [
        ({"epoch_steps": 13}, 13),
        ({"epoch_steps": 5}, 15),
        ({"epoch_steps": 1}, 11),
        ({"epoch_steps": 11}, 11),
        ({"epoch_steps": 22}, 11),
        ({"epoch_steps": 13, "bursts": 0}, 11),  # nothing of it is at its ends
        ({"epoch_steps": 14, "cycle": 2}, 28),
        ({"epoch_steps": 13, "cycle": 2}, 22),  # a cycle would go on in the next block
        ({"epoch_steps": 20, "cycle": 2, "cycle_seconds": 0.28}, 20),  # 2.8 s
        ({"epoch_steps": 13, "steps_in_all": 90}, 13),
        ({"epoch_steps": 13, "steps_in_all": 60}, 10),  # it ends before
        ({"epoch_steps": 13, "cycle_seconds": 0.17}, 13),  # blocks of 5 have no steps but those at ends
        ({"epoch_steps": 20, "cycle_seconds": 0.17}, 9),  # in these two others are left
        ({"epoch_steps": 17, "cycle_seconds": 0.17}, 17),
        ({"epoch_steps": 17, "cycle_seconds": 0.2}, 5),  # for a block of 3.4 s nobody waits
        ({"epoch_steps": 40, "cycle_seconds": 0.17}, 5),  # as few of these blocks lie at ends
        ({"epoch_steps": 30, "cycle_seconds": 0.5}, 8),
        ({"epoch_steps": 22, "cycle_seconds": 1.0}, 3),  # nor for one of 8 s
    ],
)
def test_blocks_that_suit_short_passes(changes: dict[str, int], block: int) -> None:
    assert Schedule.of(replace(WORKERS, **changes)).block == block  # type: ignore[arg-type]


def test_a_loader_begun_anew_in_every_step_is_regular() -> None:
    steps = [step(restarts=1) for _ in range(20)]
    assert regular_steps(steps, rhythm_of(steps)) == steps


def test_only_what_falls_into_steps_besides_themselves_is_beyond_them() -> None:
    uneven = [step(0.01), step(0.01), step(0.03)] * 10  # no evaluation makes their mean twice their median
    assert seconds_beyond_steps(uneven, PLAIN) == 0.0
    evaluated = [*uneven, step(0.11, evaluations=1), *uneven, step(0.21, restarts=1)]
    assert seconds_beyond_steps(evaluated, PLAIN) == pytest.approx(0.3)
    assert seconds_beyond_steps([step(evaluations=1)], PLAIN) is None


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


def test_where_each_batch_is_trained_on_several_times_these_steps_are_a_cycle() -> None:
    steps = [step(samples=32 if number % 4 == 0 else None) for number in range(20)]
    assert rhythm_of(steps).cycle == 4
    assert rhythm_of(steps).unit == LOADED


def test_batches_that_come_now_and_then_make_no_cycle() -> None:
    draws = random.Random(3)
    took = [draws.random() < 0.5 for _ in range(40)]
    assert cycle_length([(0, 1, 1)] * 40, took) == 1
    assert cycle_length(TWO_OPTIMIZERS * 20, took) == 2


def test_without_a_pattern_every_step_is_a_cycle() -> None:
    draws = random.Random(3)
    assert cycle_length([(draws.randrange(3), draws.randint(1, 3), 1) for _ in range(40)]) == 1


def test_a_decoder_that_is_called_for_each_word_does_not_hide_the_cycle() -> None:
    """Encoder and decoder have an optimizer each, and sentences differ in length."""
    draws = random.Random(3)
    signatures = [s for _ in range(20) for s in ((0, draws.randint(4, 20), 1), (1, 0, 0))]
    assert cycle_length(signatures) == 2


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


# samples that a loader gave, and that went through the modules, by step; and what times are compared per
UNITS = [
    pytest.param([(8, None)], LOADED, 0.01 / 8, id="a loader"),
    pytest.param([(8, 5)], LOADED, 0.01 / 8, id="a loader, whatever went through"),
    pytest.param([(8, None)] * 9 + [(None, None)], LOADED, 0.01 / 8, id="a loader that is read ahead"),
    pytest.param([(None, 32)], GONE_THROUGH, 0.01 / 32, id="no loader"),
    pytest.param(
        [(100, None)] + [(None, 32)] * 29, GONE_THROUGH, 0.01 / 32, id="a loader for something else"
    ),
    pytest.param([(None, 32)] * 15 + [(None, 31)], GONE_THROUGH, 0.01 / 32, id="a remainder"),
    pytest.param([(None, None)], STEPS, 0.01, id="nobody knows"),
    pytest.param([(None, 32), (None, None), (None, 32)], STEPS, 0.01, id="known of some"),
    pytest.param(
        [(8, None), (None, None), (None, None)], LOADED, 0.03 / 8, id="a batch that is trained on three times"
    ),
]


@pytest.mark.attack("truth")
@pytest.mark.parametrize(("counts", "unit", "seconds"), UNITS)
def test_per_what_times_are_compared(
    counts: list[tuple[int | None, int | None]], unit: str, seconds: float
) -> None:
    steps = [step(0.01, samples=loaded, inputs=inputs) for loaded, inputs in (counts * 30)[:30]]
    rhythm = rhythm_of(steps)
    assert rhythm.unit == unit
    block = measure(steps, rhythm)
    assert block is not None
    assert block.sample_seconds == pytest.approx(seconds)
    known = {step.samples for step in in_unit(steps, rhythm)}
    assert (known == {None}) == (unit == STEPS)


@pytest.mark.attack("truth")
@pytest.mark.parametrize(
    ("unit", "samples", "inputs"),
    [(LOADED, None, None), (LOADED, None, 32), (GONE_THROUGH, None, None), (GONE_THROUGH, 8, None)],
)
def test_a_block_of_one_plan_is_never_compared_per_something_else(
    unit: str, samples: int | None, inputs: int | None
) -> None:
    """Else a plan under which samples cannot be seen would be that many times slower, or faster."""
    steps = [step(samples=samples, inputs=inputs) for _ in range(8)]
    assert measure(steps, replace(PLAIN, unit=unit)) is None


@pytest.mark.attack("truth")
@pytest.mark.parametrize("samples", [None, 8, 16])
@pytest.mark.parametrize("inputs", [None, 32])
def test_compared_per_step_samples_do_not_matter(samples: int | None, inputs: int | None) -> None:
    steps = [step(0.02, samples=samples, inputs=inputs) for _ in range(8)]
    block = measure(steps, replace(PLAIN, unit=STEPS))
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
