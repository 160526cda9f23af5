"""Length-prefixed JSON over a socket, between coordinator and worker. The messages are in
``records/messages.py``.

The worker's end is in the script's process, where the script may replace functions of json and socket: the
ones we need are bound before it starts.
"""

from __future__ import annotations

import json
import socket
import struct

from ...records.codec import one_level
from ...records.messages import Message, UnknownMessage, decode, encode

_HEADER = struct.Struct("!I")


def _records(value: object) -> object:
    form = one_level(value)
    if form is value:
        raise TypeError(f"{type(value).__name__} cannot be sent")
    return form


_encode = json.JSONEncoder(default=_records, check_circular=False).encode
_decode = json.JSONDecoder().decode
_send = socket.SocketType.sendall  # of socket.socket's base class, in which nothing can be replaced
_receive = socket.SocketType.recv
_wait_at_most = socket.SocketType.settimeout


class Hangup(Exception):
    """The other side is gone."""


class Wire:
    """One end of the conversation. ``receive`` waits at most ``timeout`` seconds (None: for ever)."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection

    @classmethod
    def from_descriptor(cls, descriptor: int) -> Wire:
        """The end inherited as file descriptor ``descriptor``; children will not inherit it
        again.
        """
        connection = socket.socket(fileno=descriptor)
        connection.set_inheritable(False)
        return cls(connection)

    def send(self, message: Message) -> None:
        """Raises Hangup when the other side is gone."""
        body = _encode(encode(message)).encode()
        try:
            _wait_at_most(self._connection, None)
            _send(self._connection, _HEADER.pack(len(body)) + body)
        except OSError as error:
            raise Hangup(str(error)) from error

    def receive(self, timeout: float | None = None) -> Message:
        """Raises Hangup when the other side is gone, TimeoutError when nothing comes in time, and
        UnknownMessage when what comes is not a message.
        """
        _wait_at_most(self._connection, timeout)
        (length,) = _HEADER.unpack(self._exactly(_HEADER.size))
        body = self._exactly(length)
        try:
            data = _decode(body.decode())
        except ValueError as error:
            raise UnknownMessage(f"it is not JSON: {error}") from error
        return decode(data)

    def close(self) -> None:
        self._connection.close()

    def _exactly(self, count: int) -> bytes:
        parts = bytearray()
        while len(parts) < count:
            try:
                part = _receive(self._connection, count - len(parts))
            except TimeoutError:
                raise
            except OSError as error:
                raise Hangup(str(error)) from error
            if not part:
                raise Hangup("the connection was closed")
            parts += part
        return bytes(parts)
