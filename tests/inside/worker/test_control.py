"""The worker's side: it reports, obeys, and trains on. The coordinator's requests are sent ahead."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any, ClassVar

import pytest
import torch

from hasten.inside.observing.raw_step import RawStep
from hasten.inside.process.wire import Hangup, Wire
from hasten.inside.worker.control import Conversation
from hasten.records.messages import Ended, Message, Observe, Proofs, ShowProofs, StepsDone, TrainSteps
from hasten.records.observation import Step
from hasten.records.trace import StepTrace

from ...patience import PATIENCE_SECONDS


class ProcessEnded(BaseException):
    """Stands for the end of the process."""


class Coordinator:
    """Both ends of a conversation; a step's end blocks until a request lets the training go on."""

    def __init__(self) -> None:
        self.socket, theirs = socket.socketpair()
        self.wire = Wire(self.socket)
        self.asked: list[Message] = []
        self.worker = Conversation(Wire(theirs), self._answer)

    def _answer(self, request: Message) -> Message:
        self.asked.append(request)
        return Proofs((), len(self.asked))

    def sends(self, *requests: Message) -> None:
        for request in requests:
            self.wire.send(request)

    def hears(self) -> Message:
        return self.wire.receive(timeout=PATIENCE_SECONDS)

    def hears_of_steps(self) -> tuple[Step, ...]:
        message = self.hears()
        assert isinstance(message, (StepsDone, Ended))
        return message.steps


@pytest.fixture
def coordinator(monkeypatch: pytest.MonkeyPatch) -> Iterator[Coordinator]:
    def end(code: int) -> None:
        raise ProcessEnded(code)

    monkeypatch.setattr("hasten.inside.worker.control.os._exit", end)
    made = Coordinator()
    yield made
    made.wire.close()
    made.worker._wire.close()


def step(loss: float = 0.5) -> RawStep:
    return RawStep(
        optimizer=0, seconds=2.0, samples=8, forward=1.0, forwards=1, backwards=1, losses=[torch.tensor(loss)]
    )


def test_the_first_step_is_reported_and_the_worker_waits_there(coordinator: Coordinator) -> None:
    coordinator.sends(TrainSteps(1))
    coordinator.worker.step_ended(step())
    assert len(coordinator.hears_of_steps()) == 1


def test_a_step_is_told_in_full(coordinator: Coordinator) -> None:
    coordinator.sends(TrainSteps(1))
    coordinator.worker.step_ended(step(0.25))
    assert coordinator.hears_of_steps() == (
        Step(
            seconds=2.0, samples=8, evaluations=0, restarts=0, losses=(0.25,), signature=(0, 1, 1),
            phases={"data": 0, "forward": 1.0, "loss": 0, "backward": 0, "optimizer": 0, "other": 1.0},
        ),
    )  # fmt: skip


def test_unknown_samples_are_told_as_none(coordinator: Coordinator) -> None:
    coordinator.sends(TrainSteps(1))
    coordinator.worker.step_ended(RawStep())
    assert coordinator.hears_of_steps()[0].samples is None


def test_as_many_steps_as_were_asked_for_are_reported_together(coordinator: Coordinator) -> None:
    coordinator.sends(TrainSteps(3), TrainSteps(1))
    for loss in (0.0, 1.0, 2.0, 3.0):
        coordinator.worker.step_ended(step(loss))
    coordinator.hears()
    assert [told.losses for told in coordinator.hears_of_steps()] == [(1.0,), (2.0,), (3.0,)]


def test_the_worker_waits_at_the_last_of_them(coordinator: Coordinator) -> None:
    coordinator.sends(TrainSteps(2), ShowProofs(), TrainSteps(1))
    coordinator.worker.step_ended(step())
    coordinator.worker.step_ended(step())
    assert coordinator.asked == []
    coordinator.worker.step_ended(step())
    assert coordinator.asked == [ShowProofs()]


def test_a_question_is_answered_before_the_training_goes_on(coordinator: Coordinator) -> None:
    coordinator.sends(ShowProofs(), Observe(), TrainSteps(1))
    coordinator.worker.step_ended(step())
    assert coordinator.asked == [ShowProofs(), Observe()]
    assert [type(coordinator.hears()) for _ in range(3)] == [StepsDone, Proofs, Proofs]


def test_it_rests_before_the_coordinator_hears_of_steps_and_answers(coordinator: Coordinator) -> None:
    """The coordinator may stop its process as soon as it has heard."""
    unheard: list[int] = []

    def rests() -> None:
        try:
            unheard.append(len(coordinator.socket.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)))
        except BlockingIOError:
            unheard.append(0)

    coordinator.worker._rests = rests
    coordinator.sends(TrainSteps(1))
    coordinator.worker.step_ended(step())
    assert unheard == [0]
    coordinator.hears()
    coordinator.sends(ShowProofs(), TrainSteps(2))
    coordinator.worker.step_ended(step())
    assert unheard == [0, 0, 1], "once for the step, once for the answer, which come before it trains on"


def test_a_worker_whose_coordinator_is_gone_ends(coordinator: Coordinator) -> None:
    coordinator.wire.close()
    with pytest.raises(ProcessEnded, match="0"):
        coordinator.worker.step_ended(step())


def test_a_coordinator_that_goes_while_it_is_waited_for_ends_the_worker(coordinator: Coordinator) -> None:
    coordinator.sends(TrainSteps(1))
    coordinator.worker.step_ended(step())
    coordinator.hears()
    coordinator.wire.close()
    with pytest.raises(ProcessEnded, match="0"):
        coordinator.worker.step_ended(step())


def test_the_end_carries_the_steps_that_were_not_reported(coordinator: Coordinator) -> None:
    coordinator.sends(TrainSteps(5))
    for loss in (0.0, 1.0, 2.0):
        coordinator.worker.step_ended(step(loss))
    coordinator.worker.ended("exit", "3", (StepTrace(streams="a"),))
    coordinator.hears()
    message = coordinator.hears()
    assert isinstance(message, Ended)
    assert (message.how, message.detail) == ("exit", "3")
    assert [told.losses for told in message.steps] == [(1.0,), (2.0,)]
    assert message.trace == (StepTrace(streams="a"),)


def test_the_end_may_come_before_any_step(coordinator: Coordinator) -> None:
    coordinator.worker.ended("completed", "", ())
    assert coordinator.hears_of_steps() == ()


def test_an_end_that_cannot_be_reported_is_no_error(coordinator: Coordinator) -> None:
    coordinator.wire.close()
    coordinator.worker.ended("completed", "", ())
    with pytest.raises(Hangup):
        coordinator.worker._wire.send(Observe())


def test_losses_are_read_when_they_are_reported(coordinator: Coordinator) -> None:
    """Not before: reading waits for the device."""

    class Lazy:
        reads: ClassVar[list[int]] = []

        def __float__(self) -> float:
            self.reads.append(1)
            return 1.0

    coordinator.sends(TrainSteps(2), TrainSteps(1))
    lazy: Any = Lazy()
    for _ in range(2):
        coordinator.worker.step_ended(RawStep(losses=[lazy]))
    assert len(lazy.reads) == 1
