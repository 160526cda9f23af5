"""Messages arrive whole, or the other side's end is told."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator

import pytest

from hasten.inside.wire import Hangup, Message, Wire

from ..patience import PATIENCE_SECONDS


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
    messages: list[Message] = [{"do": "steps", "count": 3}, {"text": "Gewicht ± Δ\n"}, {}]
    for message in messages:
        ours.send(message)
    assert [theirs.receive() for _ in messages] == messages


def test_a_message_may_come_in_pieces(ends: Ends) -> None:
    Wire(ends[0]).send({"losses": [0.5, 0.25]})
    with Dripping(fileno=ends[1].detach()) as dripping:
        assert Wire(dripping).receive() == {"losses": [0.5, 0.25]}


def test_a_message_may_be_larger_than_the_socket_holds(ends: Ends) -> None:
    message = {"text": "x" * 8_000_000}
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
    ours.send({"late": True})
    assert theirs.receive() == {"late": True}
    theirs.send({"answer": 1})
    assert ours.receive(timeout=PATIENCE_SECONDS) == {"answer": 1}


def test_a_closed_connection_is_a_hangup(ends: Ends) -> None:
    ends[0].close()
    with pytest.raises(Hangup):
        Wire(ends[1]).receive()


def test_a_connection_that_closes_within_a_message_is_a_hangup(ends: Ends) -> None:
    ends[0].sendall(b"\x00\x00\x00\x10{")
    ends[0].close()
    with pytest.raises(Hangup):
        Wire(ends[1]).receive()


def test_sending_to_nobody_is_a_hangup(ends: Ends) -> None:
    ends[1].close()
    with pytest.raises(Hangup):
        Wire(ends[0]).send({"event": "steps"})


def test_an_end_closed_by_ourselves_is_a_hangup_too(ends: Ends) -> None:
    wire = Wire(ends[0])
    wire.close()
    with pytest.raises(Hangup):
        wire.send({})


def test_an_inherited_end_is_not_inherited_again(ends: Ends) -> None:
    descriptor = ends[1].detach()
    os.set_inheritable(descriptor, True)
    wire = Wire.from_descriptor(descriptor)
    assert not os.get_inheritable(descriptor)
    Wire(ends[0]).send({"a": 1})
    assert wire.receive() == {"a": 1}
    wire.close()
