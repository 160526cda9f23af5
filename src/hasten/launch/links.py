"""Measures the links between hosts, as ranks will use them: from address to address, by TCP."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import closing

from ..inside.distributed.meeting import NoMeeting, greet, welcome
from ..records.preflight import Link
from .keeper import in_background
from .world import World

_ALL_PAIRS = 4  # hosts; of more, each is measured with the next one
_MOST_PAIRS = 32
_ROUNDS = 50
_PIECE = 2**20
_PIECES = 16
_SECONDS = 10.0  # after which nothing comes through


def pairs_of(hosts: int) -> list[tuple[int, int]]:
    """The pairs of hosts to measure: all of them if they are few, otherwise neighbours in a ring."""
    if hosts <= _ALL_PAIRS:
        return [(one, other) for one in range(hosts) for other in range(one + 1, hosts)]
    ring = [(one, (one + 1) % hosts) for one in range(hosts)]
    return ring[:: -(-len(ring) // _MOST_PAIRS)]


def measure(world: World) -> Iterator[Link]:
    """Measure all links, one pair at a time. All leaders call it, and all get the same result."""
    for one, other in pairs_of(len(world.by_host)):
        listener = _listen(world) if world.here == other else None
        port = world.share(listener.getsockname()[1] if listener is not None else 0)[other]
        answering = None
        if listener is not None:
            answering = in_background(lambda one=listener: _answer(one, world.key), "hasten link")  # type: ignore[misc]
        found = None
        if world.here == one:
            found = _ask(world.by_host[other][0].address, port, world.key)
        told = world.share(found)[one]
        if listener is not None:
            listener.close()
        if isinstance(answering, threading.Thread):
            answering.join(_SECONDS)
        yield Link(one, other, *told)


def _listen(world: World) -> socket.socket:
    address = world.by_host[world.here][0].address
    made = socket.create_server((address, 0), family=socket.AF_INET6 if ":" in address else socket.AF_INET)
    made.settimeout(_SECONDS)
    return made


def _ask(address: str, port: int, key: bytes) -> tuple[float, float, str]:
    """Latency, bytes a second, and why it failed."""
    try:
        with closing(socket.create_connection((address, port), timeout=_SECONDS)) as connection:
            greet(connection, key)
            connection.settimeout(_SECONDS)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            rounds = []
            for _ in range(_ROUNDS):
                began = time.perf_counter()
                connection.sendall(b"x")
                _take(connection, 1)
                rounds.append(time.perf_counter() - began)
            piece = bytes(_PIECE)
            began = time.perf_counter()
            for _ in range(_PIECES):
                connection.sendall(piece)
            _take(connection, 1)
            return sorted(rounds)[_ROUNDS // 2] / 2, _PIECE * _PIECES / (time.perf_counter() - began), ""
    except (OSError, NoMeeting) as error:
        return 0.0, 0.0, f"{address}: {error}"


def _answer(listener: socket.socket, key: bytes) -> None:
    try:
        connection, _ = listener.accept()
        with connection:
            if not welcome(connection, key):
                return
            connection.settimeout(_SECONDS)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for _ in range(_ROUNDS):
                _take(connection, 1)
                connection.sendall(b"x")
            _take(connection, _PIECE * _PIECES)
            connection.sendall(b"x")
    except (OSError, ValueError):  # who asks tells of it
        return


def _take(connection: socket.socket, many: int) -> None:
    left = many
    while left:
        part = len(connection.recv(min(left, 2**18)))
        if not part:
            raise ConnectionError("the other side has closed the connection")
        left -= part
