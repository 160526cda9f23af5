"""Rank 0's process keeps what ranks on several machines tell each other, and notices who has gone.

It listens at one address of this machine, and answers nobody who does not know the job's key. What a stranger
may send before that is bounded, in bytes and in time.
"""

from __future__ import annotations

import signal
import socket
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from ..inside.distributed.meeting import receive, send, welcome

_MOST_STRANGERS = 64  # that are being greeted at one time
_MOST_WAIT_SECONDS = 1.0


@dataclass(frozen=True)
class Failure:
    """Why the training cannot go on, in words, and the exit code of all."""

    why: str
    code: int


@dataclass
class _Guest:
    """A launcher's process that regularly says that it is alive."""

    name: str
    heard: float
    left: bool = False


def in_background(act: Callable[[], None], name: str) -> threading.Thread:
    """Start a thread that signals do not reach: they are for the main thread, which may wait for them."""

    def run() -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        act()

    thread = threading.Thread(target=run, name=name, daemon=True)
    thread.start()
    return thread


class Keeper:
    """Raises OSError if none of ``ports`` is free at ``address``. A process that is not heard from for
    ``silence_seconds`` counts as gone.
    """

    def __init__(self, address: str, ports: Sequence[int], key: bytes, silence_seconds: float) -> None:
        self._key, self._silence = key, silence_seconds
        self._listener = _listening(address, ports)
        self.address = "{}:{}".format(*self._listener.getsockname()[:2])
        self._kept: dict[str, str] = {}
        self._changed = threading.Condition()
        self._guests: dict[int, _Guest] = {}
        self._failure: Failure | None = None
        self._greeting = threading.BoundedSemaphore(_MOST_STRANGERS)
        self._closed = False
        in_background(self._accept, "hasten meeting")
        in_background(self._watch, "hasten watch")

    def wait_until_left(self, seconds: float) -> None:
        """Return once all others have left or were lost, or after ``seconds``."""
        with self._changed:
            self._changed.wait_for(lambda: all(guest.left for guest in self._guests.values()), seconds)

    def close(self) -> None:
        self._closed = True
        self._listener.close()

    # ---- who comes
    def _accept(self) -> None:
        while not self._closed:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            if not self._greeting.acquire(blocking=False):
                connection.close()
                continue
            in_background(lambda one=connection: self._greeted(one), "hasten guest")  # type: ignore[misc]

    def _greeted(self, connection: socket.socket) -> None:
        with connection:
            try:
                known = welcome(connection, self._key)
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            except (OSError, ValueError):
                known = False
            finally:
                self._greeting.release()
            if known:
                self._serve(connection)

    def _serve(self, connection: socket.socket) -> None:
        beating: set[int] = set()
        with suppress(OSError, ValueError, KeyError, TypeError):
            while True:
                asked = receive(connection)
                if asked["what"] == "beat":
                    beating.add(int(asked["rank"]))
                send(connection, self._answer(asked))
        for rank in beating:
            self._lost(rank)

    def _answer(self, asked: dict[str, Any]) -> dict[str, Any]:
        what = asked["what"]
        with self._changed:
            if what == "put":
                self._kept[str(asked["name"])] = str(asked["value"])
                self._changed.notify_all()
            elif what == "look":
                name, seconds = str(asked["name"]), min(float(asked["seconds"]), _MOST_WAIT_SECONDS)
                self._changed.wait_for(lambda: name in self._kept, seconds)
                return {"value": self._kept.get(name)}
            elif what == "beat":
                self._beat(int(asked["rank"]), str(asked["name"]))
            elif what == "leave":
                self._guests[int(asked["rank"])].left = True
                self._changed.notify_all()
            elif what == "clock":
                return {"time": time.time()}
            elif what == "fail":
                self._failed(str(asked["why"]), int(asked["code"]))
            told = self._failure
            return {} if told is None else {"why": told.why, "code": told.code}

    # ---- who goes
    def _beat(self, rank: int, name: str) -> None:
        guest = self._guests.setdefault(rank, _Guest(name, 0.0))
        guest.heard = time.monotonic()

    def _failed(self, why: str, code: int) -> None:
        """The first reason is the one that counts."""
        if self._failure is None:
            self._failure = Failure(why, code)
            self._changed.notify_all()

    def _lost(self, rank: int) -> None:
        """A guest's connection has closed."""
        with self._changed:
            guest = self._guests[rank]
            if not guest.left:
                self._failed(f"{guest.name} has ended: its launcher, or something else, ended it", 1)
            guest.left = True
            self._changed.notify_all()

    def _watch(self) -> None:
        turn = min(1.0, self._silence / 4)
        while not self._closed:
            began = time.monotonic()
            time.sleep(turn)
            with self._changed:
                now = time.monotonic()
                if now - began > 2 * turn:  # this process was stopped itself, and could not hear anyone
                    for guest in self._guests.values():
                        guest.heard = now
                silent = [one for one in self._guests.values() if now - one.heard > self._silence]
                gone = [one.name for one in silent if not one.left]
                if gone:
                    for one in silent:
                        one.left = True  # nobody waits for it any longer
                    self._failed(
                        f"{', '.join(gone)} was not heard from for {self._silence:g} s: its machine is down "
                        "or stopped, or the network to it is cut",
                        1,
                    )


def _listening(address: str, ports: Sequence[int]) -> socket.socket:
    """At the first of ``ports`` that is free. Raises OSError."""
    failed: OSError | None = None
    for port in ports:
        listener = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((address, port))
            listener.listen(1024)
            return listener
        except OSError as error:
            listener.close()
            failed = error
    raise failed or OSError("no port was given")
