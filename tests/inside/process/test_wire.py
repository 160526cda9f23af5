"""Messages arrive whole, or the other side's end is told."""

from __future__ import annotations

import os
import socket
import struct
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest

from hasten.inside.process.wire import Hangup, Wire
from hasten.records.messages import ChildStarted, Message, Observe, TrainSteps, UnknownMessage

from ...patience import PATIENCE_SECONDS


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    yield ours, theirs
    ours.close()
    theirs.close()


Ends = tuple[socket.socket, socket.socket]


class Dripping(socket.socket):
    """Gives one byte at a time, however many are asked for."""

    def recv(self, bufsize: int, flags: int = 0, /) -> bytes:
        return super().recv(1, flags)


def test_messages_arrive_in_order(ends: Ends) -> None:
    ours, theirs = Wire(ends[0]), Wire(ends[1])
    messages: list[Message] = [TrainSteps(3), ChildStarted("Gewicht ± Δ\n"), Observe()]
    for message in messages:
        ours.send(message)
    assert [theirs.receive() for _ in messages] == messages


def test_a_message_may_come_in_pieces(ends: Ends) -> None:
    Wire(ends[0]).send(TrainSteps(3))
    with Dripping(fileno=ends[1].detach()) as dripping:
        assert Wire(dripping).receive() == TrainSteps(3)


def test_a_message_may_be_larger_than_the_socket_holds(ends: Ends) -> None:
    message = ChildStarted("x" * 8_000_000)
    sender = threading.Thread(target=Wire(ends[0]).send, args=(message,))
    sender.start()
    received = Wire(ends[1]).receive()
    sender.join()
    assert received == message


def test_silence_ends_in_a_timeout(ends: Ends) -> None:
    with pytest.raises(TimeoutError):
        Wire(ends[1]).receive(timeout=0.01)


def test_after_a_timeout_the_conversation_can_go_on(ends: Ends) -> None:
    ours, theirs = Wire(ends[0]), Wire(ends[1])
    with pytest.raises(TimeoutError):
        theirs.receive(timeout=0.01)
    ours.send(ChildStarted("late"))
    assert theirs.receive() == ChildStarted("late")
    theirs.send(TrainSteps(1))
    assert ours.receive(timeout=PATIENCE_SECONDS) == TrainSteps(1)


def test_a_closed_connection_is_a_hangup(ends: Ends) -> None:
    ends[0].close()
    with pytest.raises(Hangup):
        Wire(ends[1]).receive()


def test_a_connection_that_closes_within_a_message_is_a_hangup(ends: Ends) -> None:
    ends[0].sendall(b"\x00\x00\x00\x10{")
    ends[0].close()
    with pytest.raises(Hangup):
        Wire(ends[1]).receive()


def test_sending_without_a_receiver_is_a_hangup(ends: Ends) -> None:
    ends[1].close()
    with pytest.raises(Hangup):
        Wire(ends[0]).send(Observe())


def test_an_end_closed_by_ourselves_is_a_hangup_too(ends: Ends) -> None:
    wire = Wire(ends[0])
    wire.close()
    with pytest.raises(Hangup):
        wire.send(Observe())


def test_an_inherited_end_is_not_inherited_again(ends: Ends) -> None:
    descriptor = ends[1].detach()
    os.set_inheritable(descriptor, True)
    wire = Wire.from_descriptor(descriptor)
    assert not os.get_inheritable(descriptor)
    Wire(ends[0]).send(TrainSteps(1))
    assert wire.receive() == TrainSteps(1)
    wire.close()


@pytest.mark.attack("messages")
@pytest.mark.parametrize(
    "body",
    [
        b"", b"{", b"null", b"[]", b"3", b'"TrainSteps"', b"{}", b"\xff\xfe", b'{"message": "Fire"}',
        b'{"message": null}', b'{"message": ["TrainSteps"], "count": 1}', b'{"message": "TrainSteps"}',
        b'{"message": "Request"}', b'{"message": "Message"}', b'{"message": "StepsDone", "steps": 3}',
        b'{"message": "StepsDone", "steps": [{}]}', b'{"message": "StepsDone", "steps": ["aha"]}',
        b'{"message": "SwitchPlan", "plan": ["bf16"]}', b'{"message": "Proofs", "setup_seconds": "long"}',
    ],
)  # fmt: skip
def test_what_is_no_message_is_told_apart(ends: Ends, body: bytes) -> None:
    """And the next one can be read."""
    ends[0].sendall(struct.pack("!I", len(body)) + body)
    Wire(ends[0]).send(TrainSteps(1))
    wire = Wire(ends[1])
    with pytest.raises(UnknownMessage):
        wire.receive()
    assert wire.receive() == TrainSteps(1)


def test_what_is_no_record_cannot_be_sent(ends: Ends) -> None:
    with pytest.raises(TypeError, match="Path cannot be sent"):
        Wire(ends[0]).send(ChildStarted(cast(str, Path("train.py"))))
