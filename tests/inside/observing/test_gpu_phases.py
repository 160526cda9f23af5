"""A step's phases from events, with a stand-in for CUDA's: the stream's own clock goes on as it is told."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from hasten.inside.observing.gpu_phases import Marks
from hasten.inside.observing.observer import Observer
from hasten.inside.observing.raw_step import RawStep


class Stream:
    """``works(s)``: what was launched takes so many seconds, begun when the work before it is done."""

    def __init__(self) -> None:
        self.now = 0.0
        self.waited_for = 0

    def works(self, seconds: float) -> None:
        self.now += seconds

    def event(self, enable_timing: bool) -> Any:
        assert enable_timing
        made = SimpleNamespace(at=0.0)

        def record(stream: object) -> None:
            made.at = self.now

        def synchronize() -> None:
            self.waited_for += 1

        made.record, made.synchronize = record, synchronize
        made.elapsed_time = lambda later: 1e3 * (later.at - made.at)
        return made


@pytest.fixture
def stream() -> Stream:
    return Stream()


@pytest.fixture
def steps() -> list[RawStep]:
    return []


@pytest.fixture
def observer(stream: Stream, steps: list[RawStep]) -> Observer:
    made = Observer(steps.append)
    cuda: Any = SimpleNamespace(Event=stream.event, current_stream=lambda device: None)
    device: Any = "cuda:0"
    made.marks = Marks(cuda, device)
    return made


def forward(observer: Observer, work: Callable[[], None], training: bool = True) -> None:
    began = observer.forward_begins()
    work()
    observer.forward_ends(began, training)


def backward(observer: Observer, work: Callable[[], None]) -> None:
    began = observer.backward_begins()
    work()
    observer.backward_ends(began, [])


def a_step(observer: Observer, stream: Stream) -> None:
    stream.works(1)
    forward(observer, lambda: stream.works(2))
    stream.works(4)
    backward(observer, lambda: stream.works(8))
    stream.works(16)
    observer.update_begins()
    stream.works(32)
    observer.update_ends(0)


def test_each_phase_has_what_the_gpu_worked_in_it(
    observer: Observer, stream: Stream, steps: list[RawStep]
) -> None:
    observer.data_waited(100.0, 8)
    a_step(observer, stream)
    (step,) = steps
    step.seconds = 63.0
    assert step.phases() == {
        "data": 1.0, "forward": 2.0, "loss": 4.0, "backward": 8.0, "optimizer": 32.0, "other": 16.0
    }  # fmt: skip
    assert stream.waited_for == 1


def test_the_loader_has_no_more_than_the_script_waited_for_it(
    observer: Observer, stream: Stream, steps: list[RawStep]
) -> None:
    observer.data_waited(0.25, 8)
    a_step(observer, stream)
    steps[0].seconds = 63.0
    assert (steps[0].phases()["data"], steps[0].phases()["other"]) == (0.25, 16.75)


def test_what_passes_between_steps_is_in_neither(
    observer: Observer, stream: Stream, steps: list[RawStep]
) -> None:
    def kept_up(step: RawStep) -> None:
        steps.append(step)
        stream.works(1000)

    observer._on_step = kept_up
    a_step(observer, stream)
    a_step(observer, stream)
    first, second = (step.phases() for step in steps)
    assert first == second
    assert first["forward"] == 2.0


def test_an_evaluation_is_no_forward_pass(observer: Observer, stream: Stream, steps: list[RawStep]) -> None:
    forward(observer, lambda: stream.works(64), training=False)
    a_step(observer, stream)
    phases = steps[0].phases()
    assert (phases["forward"], phases["loss"]) == (2.0, 4.0)


def test_passes_inside_the_update_are_not_the_updates(
    observer: Observer, stream: Stream, steps: list[RawStep]
) -> None:
    observer.update_begins()
    stream.works(1)
    forward(observer, lambda: stream.works(2))
    backward(observer, lambda: stream.works(4))
    stream.works(8)
    observer.update_ends(0)
    phases = steps[0].phases()
    assert (phases["forward"], phases["backward"], phases["optimizer"]) == (2.0, 4.0, 9.0)
