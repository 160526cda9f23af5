"""Times of a step, on a clock that the test moves."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from hasten.inside.observing import observer as module
from hasten.inside.observing.cycles import cycle_length
from hasten.inside.observing.observer import Observer
from hasten.inside.observing.raw_step import RawStep


class Clock:
    """Stands still unless the test lets seconds pass."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now

    def passes(self, seconds: float) -> None:
        self.now += seconds


class Script:
    """What a training does, seen by an observer; each part takes the seconds it is given."""

    def __init__(self, clock: Clock, on_step: Callable[[RawStep], None]) -> None:
        self.clock = clock
        self.observer = Observer(on_step)

    def data(self, seconds: float, samples: int = 8, elements: int = 0, source: int = 0) -> None:
        self.clock.passes(seconds)
        self.observer.data_waited(seconds, samples, elements, source)

    def forward(self, seconds: float, training: bool = True, mode: bool = True, root: int = 0) -> None:
        began = self.observer.forward_begins()
        self.clock.passes(seconds)
        self.observer.forward_ends(began, training, mode, root=root)

    def backward(self, seconds: float) -> None:
        began = self.observer.backward_begins()
        self.clock.passes(seconds)
        self.observer.backward_ends(began, [])

    def update(self, seconds: float, closure: Callable[[], None] | None = None) -> None:
        self.observer.update_begins()
        if closure is not None:
            closure()
        self.clock.passes(seconds)
        self.observer.update_ends(0)

    def step(self) -> None:
        self.data(1)
        self.forward(2)
        self.clock.passes(0.5)
        self.backward(4)
        self.update(8)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(module, "clock", clock)
    return clock


@pytest.fixture
def steps() -> list[RawStep]:
    return []


@pytest.fixture
def script(clock: Clock, steps: list[RawStep]) -> Script:
    return Script(clock, steps.append)


def test_each_part_of_a_step_has_its_phase(script: Script, steps: list[RawStep]) -> None:
    script.clock.passes(16)
    script.step()
    (step,) = steps
    assert step.phases() == {
        "data": 1, "forward": 2, "loss": 0.5, "backward": 4, "optimizer": 8, "other": 16,
    }  # fmt: skip
    assert step.seconds == 31.5


def test_a_batch_fetched_before_the_loss_is_no_time_of_the_loss(script: Script, steps: list[RawStep]) -> None:
    script.forward(2)
    script.clock.passes(0.25)
    script.data(16)
    script.observer.epoch_began(0)
    script.clock.passes(0.25)
    script.backward(4)
    script.update(8)
    phases = steps[0].phases()
    assert (phases["data"], phases["loss"], phases["other"]) == (16, 0.5, 0)
    assert sum(phases.values()) == steps[0].seconds


def test_what_a_closure_does_is_not_the_updates_time(script: Script, steps: list[RawStep]) -> None:
    def closure() -> None:
        script.forward(2)
        script.backward(4)

    def several() -> None:
        closure()
        closure()

    script.data(1)
    script.update(8, several)
    (step,) = steps
    assert step.phases() == {"data": 1, "forward": 4, "loss": 0, "backward": 8, "optimizer": 8, "other": 0}
    assert step.seconds == 21
    assert (step.forwards, step.backwards) == (2, 2)


def test_what_a_closure_computes_unseen_is_not_the_updates_time(script: Script, steps: list[RawStep]) -> None:
    def closure() -> None:
        script.clock.passes(16)
        script.backward(4)
        script.observer.closure_took(20)

    for _ in range(2):
        script.update(8, closure)
    assert [step.phases()["optimizer"] for step in steps] == [8, 8]
    assert [step.phases()["other"] for step in steps] == [16, 16]


def test_updates_within_a_backward_pass_are_no_steps_of_their_own(
    script: Script, steps: list[RawStep]
) -> None:
    for _ in range(2):
        script.forward(1)
        began = script.observer.backward_begins()
        for number in (3, 2):
            script.clock.passes(4)
            script.clock.passes(0.5)
            script.observer.updated_within(0.5, number)
        script.observer.backward_ends(began, [])
    assert [(step.optimizer, step.forwards, step.backwards) for step in steps] == [(3, 1, 1)] * 2
    assert [(step.backward, step.update, step.seconds) for step in steps] == [(8, 1, 10)] * 2


def test_a_closure_does_not_hide_what_was_before_it(script: Script, steps: list[RawStep]) -> None:
    script.forward(1)
    script.backward(2)
    script.update(8, lambda: script.forward(4))
    assert steps[0].update == 8


def test_time_that_the_coordinator_takes_is_in_no_step(clock: Clock) -> None:
    steps: list[RawStep] = []

    def conversation(step: RawStep) -> None:
        clock.passes(1000)
        steps.append(step)

    script = Script(clock, conversation)
    script.step()
    script.step()
    assert [step.seconds for step in steps] == [15.5, 15.5]


def test_the_step_is_timed_after_the_device_has_finished(script: Script, steps: list[RawStep]) -> None:
    script.observer.keep_pace = lambda: script.clock.passes(32)
    script.step()
    assert steps[0].seconds == 47.5


def test_an_evaluation_is_counted_and_is_no_forward_of_training(script: Script, steps: list[RawStep]) -> None:
    script.data(1, samples=64)
    script.forward(32, training=False)
    script.step()
    (step,) = steps
    assert (step.evaluations, step.forwards, step.samples) == (1, 1, 8)
    assert step.forward == 2
    assert step.phases()["other"] == 32


def test_an_evaluation_with_gradients_is_one_as_well(script: Script, steps: list[RawStep]) -> None:
    """A graph network's test of few batches has no no_grad: with five steps an epoch, each test seemed to be
    part of a cycle of five steps, and no cycle was free of one.
    """
    for _ in range(8):
        for _ in range(3):
            script.forward(5, mode=False)
        for _ in range(5):
            script.step()
    assert [step.evaluations for step in steps[:7]] == [3, 0, 0, 0, 0, 3, 0]
    assert {(step.forwards, step.backwards) for step in steps} == {(1, 1)}
    assert {step.forward for step in steps} == {2}
    assert cycle_length([(step.optimizer, step.forwards, step.backwards) for step in steps]) == 1


def test_what_is_trained_in_evaluation_mode_is_no_evaluation(script: Script, steps: list[RawStep]) -> None:
    """Of batches that are accumulated, or of two networks, one of which has frozen statistics."""
    for _ in range(2):
        script.forward(2, mode=False)
        script.backward(4)
    script.update(8)
    for first in (True, False):
        script.forward(2, mode=first, root=1 + first)
        script.forward(1, mode=not first, root=2 - first)
        script.backward(4)
        script.update(8)
    told = [(step.forwards, step.evaluations, step.forward) for step in steps]
    assert told == [(2, 0, 4), (2, 0, 3), (2, 0, 3)]


def test_an_evaluation_between_forward_and_backward_keeps_the_sum(
    script: Script, steps: list[RawStep]
) -> None:
    script.forward(2)
    script.forward(32, training=False)
    script.backward(4)
    script.update(8)
    assert sum(steps[0].phases().values()) == steps[0].seconds == 46


def test_samples_of_accumulated_batches_add_up(script: Script, steps: list[RawStep]) -> None:
    for samples in (8, 8, 5):
        script.data(1, samples)
        script.forward(2)
        script.backward(4)
    script.update(8)
    assert steps[0].samples == 21


def test_of_loaders_read_side_by_side_the_one_that_gave_most_counts(
    script: Script, steps: list[RawStep]
) -> None:
    """The shorter one's batches come again from ``itertools.cycle`` when it is exhausted."""
    for cycled in (True, True, False):
        for _ in range(2):
            script.data(1, samples=16, elements=160, source=1)
            if cycled:
                script.data(1, samples=8, elements=80, source=2)
            script.forward(2)
            script.backward(4)
        script.update(8)
    assert [(step.samples, step.elements) for step in steps] == [(32, 320)] * 3


def test_a_batch_used_by_two_forward_passes_is_counted_once(script: Script, steps: list[RawStep]) -> None:
    script.data(1, samples=8)
    script.forward(2)
    script.forward(2)
    script.backward(4)
    script.update(8)
    assert steps[0].samples == 8


def test_a_loader_begun_anew_is_counted_where_it_falls(script: Script, steps: list[RawStep]) -> None:
    script.step()
    script.clock.passes(3)
    script.observer.epoch_began(3)
    script.step()
    script.step()
    assert [step.restarts for step in steps] == [0, 1, 0]
    assert [step.data for step in steps] == [1, 4, 1]


def test_a_step_of_one_update_leaves_nothing_for_the_next(script: Script, steps: list[RawStep]) -> None:
    script.forward(2)
    script.update(8)
    script.clock.passes(64)
    script.backward(4)
    script.update(8)
    assert steps[1].loss == 0
    assert steps[1].phases()["other"] == 64


def test_once_the_script_says_its_steps_nothing_else_ends_one(script: Script, steps: list[RawStep]) -> None:
    script.step()
    script.observer.step_said()
    script.step()
    script.step()
    script.clock.passes(16)
    script.observer.step_said()
    assert [(step.optimizer, step.backwards) for step in steps] == [(0, 1), (-1, 0), (-1, 2)]
    assert steps[2].phases()["optimizer"] == 16
    assert sum(steps[2].phases().values()) == steps[2].seconds == 47


Signature = tuple[int, int, int]
PLAIN: Signature = (0, 1, 1)
DISCRIMINATOR: Signature = (0, 2, 1)
GENERATOR: Signature = (1, 1, 1)
ACCUMULATED: Signature = (0, 4, 4)
REMAINDER: Signature = (0, 2, 2)


@pytest.mark.parametrize(
    ("signatures", "cycle"),
    [
        pytest.param([PLAIN] * 30, 1, id="the same step again and again"),
        pytest.param([DISCRIMINATOR, GENERATOR] * 15, 2, id="a GAN"),
        pytest.param([DISCRIMINATOR, DISCRIMINATOR, GENERATOR] * 10, 3, id="a GAN, D D G"),
        pytest.param([DISCRIMINATOR, GENERATOR, DISCRIMINATOR] * 10, 3, id="a GAN, seen from its middle"),
        pytest.param([DISCRIMINATOR] * 5 + [GENERATOR], 1, id="too few to see a pattern twice"),
        pytest.param(([DISCRIMINATOR] * 5 + [GENERATOR]) * 5, 6, id="a GAN with five inner steps"),
        pytest.param([ACCUMULATED] * 14 + [REMAINDER] + [ACCUMULATED] * 15, 1, id="a remainder in an epoch"),
        pytest.param(([ACCUMULATED] * 3 + [REMAINDER]) * 8, 4, id="a remainder every fourth step"),
        pytest.param(
            [DISCRIMINATOR, GENERATOR] * 7 + [DISCRIMINATOR, REMAINDER] + [DISCRIMINATOR, GENERATOR] * 7, 2,
            id="a GAN with a remainder in an epoch",
        ),
        pytest.param([(0, n, n) for n in range(1, 31)], 1, id="no pattern"),
        pytest.param(([PLAIN] * 19 + [GENERATOR]) * 3, 1, id="another step now and then"),
        pytest.param([(0, n, n) for n in range(17)] * 3, 1, id="longer than is looked for"),
        pytest.param([], 1, id="nothing"),
        pytest.param([PLAIN], 1, id="one step"),
    ],
)  # fmt: skip
def test_the_cycle_is_the_shortest_period(signatures: list[Signature], cycle: int) -> None:
    assert cycle_length(signatures) == cycle


def test_elements_are_those_of_the_batches_that_were_trained_on(script: Script, steps: list[RawStep]) -> None:
    for elements, training in ((80, True), (500, False), (160, True)):
        script.data(1, elements=elements)
        script.forward(2, training)
        if training:
            script.backward(4)
            script.update(8)
    assert [one.elements for one in steps] == [80, 160]


def test_batches_that_another_thread_fetches_are_not_waited_for(clock: Clock, steps: list[RawStep]) -> None:
    """As a prefetcher does, while the loop computes."""
    script = Script(clock, steps.append)
    script.step()
    for fetch in (script.data, script.observer.epoch_began):
        ahead = threading.Thread(target=fetch, args=(5.0,))
        ahead.start()
        ahead.join()
    script.forward(2)
    script.backward(4)
    script.update(8)
    assert [(step.data, step.samples, step.restarts) for step in steps] == [(1, 8, 0), (0, 0, 0)]
