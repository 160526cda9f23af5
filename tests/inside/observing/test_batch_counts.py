"""How long an epoch is, and what an evaluation read, whatever comes between the batches of a training."""

from __future__ import annotations

import pytest

from hasten.inside.observing import timeline as module

from .test_timeline import Clock, Script


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Script:
    clock = Clock()
    monkeypatch.setattr(module, "clock", clock)
    return Script(clock)


def steps(script: Script, count: int) -> None:
    for _ in range(count):
        script.batch(1.0)
        script.trains(2.0)


def test_an_evaluation_on_a_tensor_took_no_batch_of_the_training(script: Script) -> None:
    """Within an epoch, and at its end: the test set is one tensor."""
    script.begins(20)
    for _ in range(2):
        steps(script, 10)
        script.forward(5.0, recording=False, mode=False)
    script.exhausts()
    script.forward(5.0, recording=False, mode=False)
    script.begins(20)
    steps(script, 3)
    run = script.timeline.watched(ended=False)
    assert run.epoch_steps == 20
    assert (run.part("evaluation").seconds, run.part("evaluation").samples) == (15.0, 0)


def step_of_two(script: Script) -> None:
    """On a batch of each of two loaders."""
    script.batch(1.0, source=1)
    script.batch(1.0, source=2)
    script.trains(2.0)


def test_of_loaders_read_side_by_side_each_gives_its_own_batch(script: Script) -> None:
    script.begins(20)
    script.begins(20)
    for _ in range(6):
        step_of_two(script)
    assert script.timeline.watched(ended=False).epoch_steps == 20


def test_an_evaluation_within_them_counts_for_no_step(script: Script) -> None:
    script.begins(20)
    script.begins(20)
    for number in range(6):
        step_of_two(script)
        if number % 2:
            script.evaluates(7)
    run = script.timeline.watched(ended=False)
    assert run.epoch_steps == 20
    assert run.part("evaluation").samples == 3 * 7 * 8


def test_of_one_batch_for_many_steps_an_epoch_is_not_known(script: Script) -> None:
    """All samples are taken once, by ``next(iter(loader))``; the loader could have given more."""
    script.begins(2)
    script.batch(1.0)
    for _ in range(30):
        script.trains(2.0)
    assert script.timeline.watched(ended=False).epoch_steps is None


def test_a_batch_for_several_steps_makes_an_epoch_longer(script: Script) -> None:
    script.begins(20)
    for _ in range(3):
        script.batch(1.0)
        for _ in range(4):
            script.trains(2.0)
    assert script.timeline.watched(ended=False).epoch_steps == 80


def test_several_batches_of_one_loader_make_a_step(script: Script) -> None:
    """Gradients are accumulated over four of them."""
    script.begins(20)
    for _ in range(3):
        for _ in range(4):
            script.batch(1.0)
        script.trains(2.0)
    assert script.timeline.watched(ended=False).epoch_steps == 5


@pytest.mark.parametrize("watched", range(2, 24))
def test_a_block_under_way_does_not_count(script: Script, watched: int) -> None:
    """Two optimizers take turns, and each batch is for both."""
    script.begins(938)
    for number in range(watched):
        if number % 2 == 0:
            script.batch(1.0)
        script.trains(2.0)
    assert script.timeline.watched(ended=False).epoch_steps == (938 * 2 if watched > 2 else None)


@pytest.mark.parametrize("watched", range(30, 48))
def test_blocks_of_several_batches_count_as_a_whole(script: Script, watched: int) -> None:
    """A critic's step on each batch, and after every fifth one of its generator."""
    script.begins(1000)
    for number in range(watched):
        if number % 6 != 1:
            script.batch(1.0)
        script.trains(2.0)
    assert script.timeline.watched(ended=False).epoch_steps == 1200


def test_a_batch_that_is_read_ahead_counts_for_the_step_that_trains_on_it(script: Script) -> None:
    script.begins(20)
    script.batch(1.0)
    steps(script, 9)
    assert script.timeline.watched(ended=False).epoch_steps == 20


def test_a_step_after_an_evaluation_alone_took_no_batch(script: Script) -> None:
    script.begins(20)
    for _ in range(5):
        steps(script, 1)
        script.evaluates(3)
        script.trains(2.0)
    assert script.timeline.watched(ended=False).epoch_steps == 40
