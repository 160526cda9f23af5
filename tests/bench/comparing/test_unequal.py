"""Batches of unequal size: how a step's time grows with them, and what is compared then."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from hasten.bench.comparing.blocks import measure
from hasten.bench.comparing.steps import GONE_THROUGH, STEPS, Rhythm, rhythm_of
from hasten.bench.comparing.unequal import NO_GROWTH, growth_of
from hasten.records.observation import Step
from hasten.records.plan import BASELINE, Plan
from tests.bench.made_up import step

SAMPLES = 32


def of_loader(one: Step) -> int:
    return one.samples or 0


def training(
    power: float, lengths: Sequence[int], noise: float = 0.02, seed: int = 0, faster: float = 1.0
) -> list[Step]:
    """Steps on batches of sequences that were padded to these lengths; one of 100 takes 10 ms."""
    source = random.Random(seed)
    return [
        step(
            0.01 * (length / 100) ** power * source.lognormvariate(0.0, noise) / faster,
            samples=SAMPLES,
            elements=SAMPLES * length + SAMPLES,  # and a label each
        )
        for length in lengths
    ]


def some_lengths(count: int, seed: int = 1) -> list[int]:
    source = random.Random(seed)
    return [int(source.lognormvariate(4.6, 0.4)) for _ in range(count)]


@pytest.mark.parametrize("power", [0.5, 1.0, 1.6])
def test_how_the_time_grows_is_found(power: float) -> None:
    found = growth_of([[one] for one in training(power, some_lengths(30))], of_loader)
    assert found.power == pytest.approx(power, abs=0.1)
    assert 80 < found.usual < 125


def test_one_step_in_five_that_was_disturbed_does_not_matter() -> None:
    steps = training(1.0, some_lengths(30))
    slow = [step(3 * s.seconds, samples=s.samples, elements=s.elements) for s in steps[::5]]
    steps[::5] = slow
    assert growth_of([[one] for one in steps], of_loader).power == pytest.approx(1.0, abs=0.15)


@pytest.mark.parametrize(
    "steps",
    [
        training(1.0, [100] * 30),
        training(0.0, some_lengths(30), noise=0.1),
        training(1.0, some_lengths(5)),
        [step(0.01 * number) for number in range(1, 30)],
    ],
    ids=["batches are alike", "their size does not matter", "too few", "no size is known"],
)
def test_where_there_is_nothing_to_see_nothing_is_changed(steps: list[Step]) -> None:
    assert growth_of([[one] for one in steps], of_loader) == NO_GROWTH


def times(power: float, of: Callable[[list[Step]], Rhythm]) -> list[float]:
    """Seconds a sample of 40 blocks under one plan, each over other batches."""
    rhythm = of(training(power, some_lengths(30)))
    blocks = [measure(training(power, some_lengths(12, seed), seed=seed), rhythm) for seed in range(2, 42)]
    return [block.sample_seconds for block in blocks if block is not None]


def test_blocks_on_other_batches_take_the_same_time() -> None:
    told = times(1.0, rhythm_of)
    assert len(told) == 40
    assert max(told) / min(told) < 1.1
    as_they_are = times(
        1.0, lambda steps: rhythm_of(steps).between(BASELINE, Plan({"batch_size": {"by": 2}}))
    )
    assert max(as_they_are) / min(as_they_are) > 1.4


@pytest.mark.parametrize("inputs", [SAMPLES, None])
def test_the_same_of_batches_that_come_from_no_loader(inputs: int | None) -> None:
    """What went through the modules counts; where the number of samples is not clear, each step."""

    def without_loader(steps: list[Step]) -> list[Step]:
        return [replace(one, samples=None, inputs=inputs) for one in steps]

    rhythm = rhythm_of(without_loader(training(1.0, some_lengths(30))))
    assert rhythm.unit == (GONE_THROUGH if inputs else STEPS)
    assert rhythm.growth.power == pytest.approx(1.0, abs=0.1)
    others = [
        measure(without_loader(training(1.0, some_lengths(12, seed), seed=seed)), rhythm)
        for seed in range(2, 42)
    ]
    told = [block.sample_seconds for block in others if block is not None]
    assert len(told) == 40
    assert max(told) / min(told) < 1.1


def test_a_gain_stays_what_it_is() -> None:
    rhythm = rhythm_of(training(1.0, some_lengths(30)))
    plain = measure(training(1.0, some_lengths(40, 5), seed=5), rhythm)
    faster = measure(training(1.0, some_lengths(40, 6), seed=6, faster=1.25), rhythm)
    assert plain is not None
    assert faster is not None
    assert plain.sample_seconds / faster.sample_seconds == pytest.approx(1.25, abs=0.03)


def test_only_plans_whose_processes_see_the_same_batches_are_compared_so() -> None:
    """A rank counts all samples of a batch, and the numbers of its own slice."""
    rhythm = rhythm_of(training(1.0, some_lengths(30)))
    ranks = Plan({"processes": {"count": 2}, "bf16": {}})
    assert rhythm.between(BASELINE, ranks).growth == NO_GROWTH
    assert rhythm.between(ranks, ranks.without("bf16")) == rhythm
    larger = Plan({"batch_size": {"by": 2}, "bf16": {}})
    assert rhythm.between(BASELINE, Plan({"bf16": {}})) == rhythm
    assert rhythm.between(larger, larger.without("bf16")) == rhythm
    assert rhythm.between(BASELINE, larger).growth == NO_GROWTH


def test_a_cycle_of_several_steps_counts_as_one() -> None:
    steps = [
        step(one.seconds, samples=one.samples, signature=(number % 2, 1, 1), elements=one.elements)
        for number, one in enumerate(training(1.0, some_lengths(60)))
    ]
    rhythm = rhythm_of(steps)
    assert rhythm.cycle == 2
    assert rhythm.growth.power == pytest.approx(1.0, abs=0.1)
