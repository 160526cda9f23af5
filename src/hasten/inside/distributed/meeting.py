"""What processes on several machines tell each other: bytes by name, kept by one of them.

A message is its length in four bytes, then JSON. Before anything else both sides prove to each other that
they know the job's key, by a digest of two numbers that each has drawn (as in RFC 2104): neither the key nor
anything else of the job goes to a stranger. What follows is not encrypted, as Gloo's traffic is not.
"""

from __future__ import annotations

import base64
import hmac
import json
import secrets
import socket
import struct
import threading
import time
from typing import Any

MOST_BYTES = 2**24  # of a message
_HELLO_BYTES = 2**10  # of one from a process that has proved nothing yet
_HELLO_SECONDS = 5.0
_TURN_SECONDS = 0.5  # for which the keeper holds an answer back


class NoMeeting(RuntimeError):
    """No process of this job answers there, or the connection broke."""


class OtherKey(NoMeeting):
    """A process answers that has another key."""


def send(connection: socket.socket, message: dict[str, Any]) -> None:
    """Send one message."""
    text = json.dumps(message).encode()
    connection.sendall(struct.pack("!I", len(text)) + text)


def receive(connection: socket.socket, most_bytes: int = MOST_BYTES) -> dict[str, Any]:
    """The next message. Raises ConnectionError if the connection is closed, ValueError for anything else."""
    (length,) = struct.unpack("!I", _exactly(connection, 4))
    if length > most_bytes:
        raise ValueError(f"it sent a message of {length} bytes, which is too long")
    message = json.loads(_exactly(connection, length))
    if not isinstance(message, dict):
        raise ValueError("it sent a message that is not hasten's")
    return message


def _exactly(connection: socket.socket, many: int) -> bytes:
    parts = bytearray()
    while len(parts) < many:
        part = connection.recv(many - len(parts))
        if not part:
            raise ConnectionError("the other side has closed the connection")
        parts += part
    return bytes(parts)


def proof_of(key: bytes, who: str, *drawn: str) -> str:
    """Shows that ``who`` knows the ``key``, for numbers that both sides have ``drawn``."""
    return hmac.new(key, " ".join((who, *drawn)).encode(), "sha256").hexdigest()


def welcome(connection: socket.socket, key: bytes) -> bool:
    """The keeper's side of the greeting: whether the other knows the key."""
    connection.settimeout(_HELLO_SECONDS)
    mine = secrets.token_hex(16)
    send(connection, {"hasten": mine})
    theirs = receive(connection, _HELLO_BYTES)
    drawn = str(theirs.get("drawn"))
    known = hmac.compare_digest(str(theirs.get("proof")), proof_of(key, "guest", mine, drawn))
    send(connection, {"proof": proof_of(key, "keeper", mine, drawn)} if known else {"unknown": True})
    connection.settimeout(None)
    return known


def greet(connection: socket.socket, key: bytes) -> None:
    """The guest's side. Raises NoMeeting."""
    connection.settimeout(_HELLO_SECONDS)
    drawn = secrets.token_hex(16)
    try:
        theirs = str(receive(connection, _HELLO_BYTES)["hasten"])
        send(connection, {"drawn": drawn, "proof": proof_of(key, "guest", theirs, drawn)})
        answer = receive(connection, _HELLO_BYTES)
    except (OSError, ValueError, KeyError) as error:
        raise NoMeeting(f"what listens there is not hasten ({error or type(error).__name__})") from None
    if not hmac.compare_digest(str(answer.get("proof")), proof_of(key, "keeper", theirs, drawn)):
        raise OtherKey("its key is not this process's")
    connection.settimeout(None)


class Meeting:
    """A guest's connection. Several threads may use it. ``silence_seconds``: after which the keeper counts as
    gone.
    """

    def __init__(self, address: str, key: bytes, silence_seconds: float) -> None:
        """Connect to the keeper at ``address``, HOST:PORT. Raises NoMeeting."""
        self._where, self._one = address, threading.Lock()
        host, _, port = address.rpartition(":")
        try:
            self._connection = socket.create_connection((host, int(port)), timeout=_HELLO_SECONDS)
        except OSError as error:
            raise NoMeeting(f"{address} cannot be reached: {error}") from None
        try:
            greet(self._connection, key)
        except NoMeeting:
            self._connection.close()
            raise
        self._connection.settimeout(silence_seconds)
        self._connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    @property
    def own_address(self) -> str:
        """This machine's address on the connection to the keeper."""
        return str(self._connection.getsockname()[0])

    def ask(self, what: str, **more: object) -> dict[str, Any]:
        """Send a request and return its answer. Raises NoMeeting if none comes."""
        try:
            with self._one:
                send(self._connection, {"what": what, **more})
                return receive(self._connection)
        except (OSError, ValueError) as error:
            raise NoMeeting(f"{self._where} is silent: {error or type(error).__name__}") from None

    def put(self, name: str, value: bytes) -> None:
        """Keep ``value`` under ``name``, where every process of the job can get it."""
        self.ask("put", name=name, value=base64.b64encode(value).decode())

    def look(self, name: str, wait: bool = True) -> bytes | None:
        """The value under ``name``, None if no process has put one there. ``wait``: up to half a second."""
        found = self.ask("look", name=name, seconds=_TURN_SECONDS if wait else 0.0).get("value")
        return None if found is None else base64.b64decode(found)

    def get(self, name: str, seconds: float) -> bytes:
        """The value under ``name``. Raises TimeoutError if no process puts one there within ``seconds``."""
        until = time.monotonic() + seconds
        while (found := self.look(name)) is None:
            if time.monotonic() > until:
                raise TimeoutError(f"no process has sent {name!r} within {seconds:g} s")
        return found

    def close(self) -> None:
        self._connection.close()
