"""Steps in, blocks out: of each kind what a step takes."""

from __future__ import annotations

from typing import Any

import pytest

from hasten.inside.observing.raw_step import RawStep
from hasten.inside.run_watch.step_blocks import Block, Blocks, block_of, kind_of


def step(seconds: float = 0.01, **others: Any) -> RawStep:
    usual: dict[str, Any] = {"samples": 64, "elements": 64 * 784, "forwards": 1, "backwards": 1}
    return RawStep(seconds=seconds, **{**usual, **others})


def gathered(steps: list[RawStep], seconds: float = 0.1) -> list[Block]:
    blocks = Blocks(seconds, lambda: False)
    return [block for one in steps if (block := blocks.step_ended(one)) is not None]


def test_a_block_lasts_as_long_as_it_should() -> None:
    assert [block.steps for block in gathered([step(0.00999)] * 44)] == [11] * 4


def test_a_block_has_several_steps_however_long_they_are() -> None:
    assert [block.steps for block in gathered([step(5.0)] * 16)] == [8, 8]


def test_of_many_steps_the_first_are_looked_at() -> None:
    """Whatever a block costs, it is a second that pays for it."""
    (block,) = gathered([step(0.001)] * 64 + [step(0.002)] * 20)
    assert block.counts == {kind_of(step()): 64}
    assert list(block.seconds.values()) == [pytest.approx(0.001)]
    assert block.steps in (82, 83)  # as rounding has it


def made_of(*steps: RawStep) -> Block:
    return block_of(steps, sum(one.seconds for one in steps), len(steps))


def test_a_slow_step_among_others_counts() -> None:
    """Where others take processor time, some steps are long and most are not."""
    block = made_of(*[step()] * 9, step(3.0))
    assert list(block.seconds.values()) == [pytest.approx(0.309)]
    assert block.wall == pytest.approx(3.09)


@pytest.mark.parametrize(
    "change",
    [
        {"samples": 16},
        {"elements": 64 * 900},
        {"evaluations": 3},
        {"restarts": 1},
        {"optimizer": 1},
        {"inputs": 9},
    ],
)
def test_what_is_unlike_is_another_kind(change: dict[str, int]) -> None:
    of_elements = {"elements": 0} if "inputs" in change else {}
    assert kind_of(step(**change, **of_elements)) != kind_of(step(**of_elements))


@pytest.mark.parametrize("change", [{"forwards": 7}, {"elements": 64 * 785}, {"data": 3.0}])
def test_what_hardly_matters_is_no_other_kind(change: dict[str, int]) -> None:
    assert kind_of(step(**change)) == kind_of(step(forwards=5 if "forwards" in change else 1))


def test_kinds_are_told_apart_within_a_block() -> None:
    block = made_of(*[step()] * 6, *[step(0.5, evaluations=10)] * 2)
    assert sorted(block.seconds.values()) == [pytest.approx(0.01), pytest.approx(0.5)]
    assert sorted(block.counts.values()) == [2, 6]


def test_phases_are_those_of_the_most_frequent_kind() -> None:
    usual, evaluated = step(data=0.004, forward=0.002), step(0.5, data=0.3, evaluations=10)
    phases = made_of(*[usual] * 6, *[evaluated] * 2).phases
    told = {"data": 0.004, "forward": 0.002, "loss": 0.0, "backward": 0.0, "optimizer": 0.0, "other": 0.004}
    assert phases == pytest.approx(told)


def test_a_step_in_which_techniques_were_set_up_is_none() -> None:
    block = made_of(*[step()] * 7, step(4.0, set_up=3.9))
    assert list(block.seconds.values()) == [pytest.approx(0.01)]
    assert sum(block.counts.values()) == 7
    assert not block.set_up


def test_a_block_of_set_up_is_told_to_be_that() -> None:
    assert made_of(*[step()] * 3, *[step(4.0, set_up=3.9)] * 5).set_up
    assert made_of(*[step(4.0, set_up=3.9)] * 8).set_up
