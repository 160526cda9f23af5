"""When steps are said to be slower, and when not: a course of blocks in, events out."""

from __future__ import annotations

import math

import pytest

from hasten.inside.run_watch.reference import noise_of
from hasten.inside.run_watch.rules import REFERENCE_BLOCKS, Pace, is_slower
from hasten.inside.run_watch.step_blocks import Block
from hasten.records.run_pace import TunedPace, WatchedRun

from .made_up import EVALUATED, LAST_OF_EPOCH, STEP, USUAL, block, events, mixed

WARM, LASTING = 5, 30  # blocks of a second, as WatchedRun has it
TUNED = TunedPace(STEP, 1.08 * STEP, 64.0)
SLOWER = ["learns", "learnt", "suspects", "slower"]
AS_PLANNED = SLOWER[:2]


def course(*parts: tuple[int, float]) -> list[Block]:
    """So many blocks of steps that take so many times 10 ms, for each part."""
    return [block(times) for count, times in parts for _ in range(count)]


def judged(*parts: tuple[int, float], tuned: TunedPace | None = None) -> tuple[list[str], Pace]:
    pace = Pace(WatchedRun(tuned))
    return list(events(pace, course(*parts))), pace


def test_steady_steps_are_nothing_to_speak_of() -> None:
    assert judged((400, 1.0))[0] == AS_PLANNED


def test_the_first_steps_do_not_count() -> None:
    assert judged((WARM, 3.0), (400, 1.0))[0] == AS_PLANNED


def test_what_becomes_slower_and_stays_so_is_told_with_its_times() -> None:
    said, pace = judged((60, 1.0), (80, 1.3))
    found = pace.finding()
    assert said == SLOWER
    assert not found.than_tuned
    assert found.times == pytest.approx(1.3)
    assert found.seconds == pytest.approx(1.3 * STEP)
    assert found.before == pytest.approx(STEP)
    assert not found.growing


def test_it_is_told_once() -> None:
    assert judged((60, 1.0), (500, 1.3), (60, 1.0), (500, 2.0))[0] == SLOWER


@pytest.mark.parametrize("times", [1.05, 0.5])
def test_a_little_slower_and_much_faster_are_nothing(times: float) -> None:
    assert judged((60, 1.0), (300, times))[0] == AS_PLANNED


def test_what_does_not_last_is_not_told() -> None:
    assert judged((60, 1.0), (LASTING // 2 - 2, 2.0), (300, 1.0))[0] == AS_PLANNED


def test_what_ends_while_it_is_looked_at_is_not_told() -> None:
    assert judged((60, 1.0), (LASTING - 2, 1.5), (300, 1.0))[0] == [*AS_PLANNED, "suspects", "calm"]


def test_what_is_slow_again_and_again_is_noise_from_then_on() -> None:
    said, _ = judged((60, 1.0), *[(LASTING - 2, 1.5), (LASTING, 1.0)] * 20)
    assert said.count("suspects") <= 2
    assert said[-1] == "calm"


def test_in_a_long_run_it_must_last_longer() -> None:
    """Three times as long at most."""
    assert judged((4000, 1.0), (2 * LASTING - 10, 1.5), (300, 1.0))[0] == AS_PLANNED
    assert judged((4000, 1.0), (7 * LASTING, 1.5))[0] == SLOWER


def test_ever_slower_steps_are_told_to_be_that() -> None:
    pace = Pace(WatchedRun())
    growing = (block(1.0 + 0.002 * at) for at in range(300))
    assert list(events(pace, growing)) == SLOWER
    assert pace.finding().growing


@pytest.mark.parametrize(("noise", "said"), [(0.0, SLOWER), (0.06, AS_PLANNED)])
def test_the_noisier_the_first_blocks_the_slower_later_ones_must_be(noise: float, said: list[str]) -> None:
    noisy = [(1, 1.0 + noise), (1, 1.0 - noise)] * 30
    assert judged(*noisy, (200, 1.2))[0] == said


# ---- against the tune
def test_a_run_that_is_slower_from_its_start_is_told_by_the_tune() -> None:
    said, pace = judged((100, 1.3), tuned=TUNED)
    found = pace.finding()
    assert said == SLOWER
    assert found.than_tuned
    assert found.from_start
    assert found.times == pytest.approx(1.3)
    assert found.before == STEP


def test_a_run_as_slow_as_chance_may_make_it_is_not() -> None:
    assert judged((300, 1.12), tuned=TUNED)[0] == AS_PLANNED


def test_by_how_much_chance_may_slow_a_run_is_told_by_the_tune() -> None:
    assert judged((300, 1.3), tuned=TunedPace(STEP, 1.4 * STEP, 64.0))[0] == AS_PLANNED


def test_what_becomes_slower_than_in_the_tune_is_compared_with_that() -> None:
    said, pace = judged((60, 1.0), (80, 1.5), tuned=TUNED)
    assert said == SLOWER
    assert pace.finding().than_tuned
    assert not pace.finding().from_start


def test_what_is_slower_than_before_and_not_than_the_plan_is_compared_with_before() -> None:
    said, pace = judged((60, 0.8), (60, 1.0), tuned=TUNED)
    assert said == SLOWER
    assert not pace.finding().than_tuned


def test_other_batches_than_in_the_tune_are_not_compared_with_it() -> None:
    assert judged((300, 1.5), tuned=TunedPace(STEP, STEP, 32.0))[0] == AS_PLANNED


def test_batches_of_many_sizes_are_not_compared_with_the_tune() -> None:
    short, long = (0, 1, 1, 64, 80, 0, 0), (0, 1, 1, 64, 96, 0, 0)
    both = mixed({short: 0.01, long: 0.03}, {short: 25, long: 25})
    assert events(Pace(WatchedRun(TUNED)), [both] * 300) == AS_PLANNED


# ---- what is not a step like the others
def test_steps_with_an_evaluation_or_a_last_batch_do_not_count() -> None:
    usual = mixed(
        {USUAL: STEP, EVALUATED: 0.4, LAST_OF_EPOCH: 0.004}, {USUAL: 96, EVALUATED: 2, LAST_OF_EPOCH: 2}
    )
    slow = mixed(
        {USUAL: STEP, EVALUATED: 4.0, LAST_OF_EPOCH: 0.4}, {USUAL: 96, EVALUATED: 2, LAST_OF_EPOCH: 2}
    )
    assert events(Pace(WatchedRun()), [*[usual] * 60, *[slow] * 200]) == AS_PLANNED


def test_of_steps_that_take_turns_each_is_compared_with_its_like() -> None:
    """As those of a GAN: a block may have more of the longer ones."""
    short, long = (0, 1, 1, 64, 90, 0, 0), (1, 2, 1, 0, 0, 0, 0)
    half = mixed({short: 0.01, long: 0.03}, {short: 25, long: 25})
    more = mixed({short: 0.01, long: 0.03}, {short: 15, long: 35})
    assert events(Pace(WatchedRun()), [*[half] * 60, *[more] * 200]) == AS_PLANNED


def test_larger_batches_are_learnt_anew() -> None:
    larger = (0, 1, 1, 64, 106, 0, 0)
    said = events(Pace(WatchedRun(TUNED)), [*[block()] * 60, *[block(4.0, larger)] * 200])
    assert said == [*AS_PLANNED, *AS_PLANNED]


def test_where_no_kind_of_step_is_frequent_nothing_is_said() -> None:
    blocks = [
        mixed({(0, 1, 1, 64, at % 97, 0, 0): 0.01 * at}, {(0, 1, 1, 64, at % 97, 0, 0): 100})
        for at in range(1, 400)
    ]
    assert "slower" not in events(Pace(WatchedRun(TUNED)), blocks)


def test_another_training_is_learnt_anew_and_not_compared_with_the_tune() -> None:
    pace = Pace(WatchedRun(TUNED))
    assert events(pace, [block()] * 60) == AS_PLANNED
    pace.another_training()
    assert events(pace, [block(4.0)] * 300) == AS_PLANNED


def test_what_comes_before_the_first_steps_is_the_training_that_was_tuned() -> None:
    pace = Pace(WatchedRun(TUNED))
    pace.another_training()
    assert events(pace, [block(1.3)] * 100) == SLOWER
    assert pace.finding().than_tuned


# ---- pieces
def test_a_few_wild_blocks_do_not_make_noise() -> None:
    assert noise_of([0.0, 0.01, -0.01] * 5 + [3.0]) < 0.03


@pytest.mark.parametrize(
    ("log_ratios", "limit", "slower"),
    [
        ([0.2] * 8, 0.1, True),
        ([0.2] * 5 + [0.0] * 3, 0.1, False),  # hardly more than half of them
        ([0.2] * 6 + [0.0] * 2, 0.1, True),
        ([0.05] * 8, 0.1, False),
        ([0.05] * 8, math.inf, False),
        ([-0.05] * 8, -0.1, True),  # the reference is slower than what it is compared with
    ],
)
def test_most_blocks_must_be_slower(log_ratios: list[float], limit: float, slower: bool) -> None:
    assert is_slower(log_ratios, limit) is slower


def test_the_reference_is_of_the_first_blocks_after_warming_up() -> None:
    said, pace = judged((WARM, 5.0), (REFERENCE_BLOCKS, 1.0))
    assert said == AS_PLANNED
    assert pace.reference is not None
    assert pace.reference.level == pytest.approx(STEP)
    assert pace.reference.samples == 64
