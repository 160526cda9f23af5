"""What processes of several hosts tell each other goes to those of the job alone."""

from __future__ import annotations

import json
import socket
import struct
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from hasten.inside.distributed.meeting import Meeting, NoMeeting, OtherKey, receive, send
from hasten.launch.keeper import Keeper
from hasten.launch.rendezvous import LOCAL, free_port

from ..patience import PATIENCE_SECONDS

KEY = b"k" * 32


MADE: list[Meeting] = []


@pytest.fixture
def keeper() -> Iterator[Keeper]:
    made = Keeper(LOCAL, [free_port()], KEY, PATIENCE_SECONDS)
    yield made
    made.close()
    while MADE:
        MADE.pop().close()


def guest(keeper: Keeper, key: bytes = KEY) -> Meeting:
    MADE.append(Meeting(keeper.address, key, PATIENCE_SECONDS))
    return MADE[-1]


def until_failed(one: Meeting, rank: int, every: float = 0.01) -> dict[str, Any]:
    """What is told a rank that asks again and again, ``every`` so many seconds."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        time.sleep(every)
        if told := one.ask("beat", rank=rank, name=""):
            return told
    raise AssertionError("nothing failed")


def stranger(keeper: Keeper) -> socket.socket:
    host, _, port = keeper.address.rpartition(":")
    made = socket.create_connection((host, int(port)))
    made.settimeout(PATIENCE_SECONDS)
    return made


def test_what_one_puts_there_the_other_finds(keeper: Keeper) -> None:
    one, other = guest(keeper), guest(keeper)
    one.put("name", b"\x00\xffvalue")
    assert other.get("name", PATIENCE_SECONDS) == b"\x00\xffvalue"
    assert other.look("another", wait=False) is None


def test_who_asks_first_waits_for_it(keeper: Keeper) -> None:
    one, other = guest(keeper), guest(keeper)
    found: list[bytes] = []
    asking = threading.Thread(target=lambda: found.append(one.get("late", PATIENCE_SECONDS)))
    asking.start()
    other.put("late", b"here")
    asking.join()
    assert found == [b"here"]


def test_a_missing_value_is_waited_for_no_longer_than_asked(keeper: Keeper) -> None:
    with pytest.raises(TimeoutError, match="no process has sent 'never'"):
        guest(keeper).get("never", 0.01)


# ---- strangers
@pytest.mark.attack("intruders")
def test_another_key_is_turned_away_by_name(keeper: Keeper) -> None:
    with pytest.raises(OtherKey, match="its key is not"):
        guest(keeper, b"x" * 32)
    guest(keeper).put("still", b"there")


@pytest.mark.attack("intruders")
def test_a_keeper_with_another_key_is_not_believed() -> None:
    """One that only says that all is well, to be told what the job's processes tell each other."""
    with socket.create_server((LOCAL, 0)) as listener:

        def pretend() -> None:
            connection, _ = listener.accept()
            with connection:
                send(connection, {"hasten": "00"})
                receive(connection)
                send(connection, {"proof": "00" * 32})

        threading.Thread(target=pretend, daemon=True).start()
        with pytest.raises(OtherKey):
            Meeting(f"{LOCAL}:{listener.getsockname()[1]}", KEY, PATIENCE_SECONDS)


@pytest.mark.attack("intruders")
@pytest.mark.parametrize(
    "said",
    [
        pytest.param(struct.pack("!I", 2**31), id="a message without end"),
        pytest.param(struct.pack("!I", 4) + b"[[[[", id="no JSON"),
        pytest.param(struct.pack("!I", 2) + b"[]", id="no object"),
        pytest.param(struct.pack("!I", 2) + b"{}", id="no proof"),
        pytest.param(b"GET / HTTP/1.0\r\n\r\n", id="another protocol"),
    ],
)
def test_who_proves_nothing_is_told_nothing(keeper: Keeper, said: bytes) -> None:
    with stranger(keeper) as connection:
        assert set(receive(connection)) == {"hasten"}
        connection.sendall(said)
        rest = bytearray()
        try:
            while part := connection.recv(4096):
                rest += part
        except ConnectionResetError:  # it is closed with what we said unread
            pass
    assert not rest or json.loads(rest[4:]) == {"unknown": True}
    guest(keeper).put("still", b"there")


@pytest.mark.attack("intruders")
def test_a_proof_is_of_one_greeting_alone(keeper: Keeper) -> None:
    """What was overheard of one opens no other."""
    heard: list[dict[str, object]] = []
    with socket.create_server((LOCAL, 0)) as listener:

        def between() -> None:
            connection, _ = listener.accept()
            with connection, stranger(keeper) as beyond:
                send(connection, receive(beyond))
                heard.append(receive(connection))
                send(beyond, heard[0])
                send(connection, receive(beyond))

        threading.Thread(target=between, daemon=True).start()
        Meeting(f"{LOCAL}:{listener.getsockname()[1]}", KEY, PATIENCE_SECONDS).close()
    with stranger(keeper) as connection:
        receive(connection)
        send(connection, heard[0])
        assert receive(connection) == {"unknown": True}


def test_no_keeper_is_there() -> None:
    with pytest.raises(NoMeeting, match="cannot be reached"):
        Meeting(f"{LOCAL}:{free_port()}", KEY, PATIENCE_SECONDS)


# ---- who goes
def test_who_closes_without_a_word_fails_all(keeper: Keeper) -> None:
    one, other = guest(keeper), guest(keeper)
    one.ask("beat", rank=0, name="rank 0's process on host a")
    other.ask("beat", rank=1, name="rank 1's process on host b")
    other.close()
    told = until_failed(one, 0)
    assert told["why"].startswith("rank 1's process on host b has ended")


def test_who_says_goodbye_does_not(keeper: Keeper) -> None:
    one, other = guest(keeper), guest(keeper)
    one.ask("beat", rank=0, name="rank 0")
    other.ask("beat", rank=1, name="rank 1")
    other.ask("leave", rank=1)
    other.close()
    one.ask("leave", rank=0)
    keeper.wait_until_left(PATIENCE_SECONDS)
    assert one.ask("beat", rank=0, name="rank 0") == {}


def test_the_first_reason_is_kept(keeper: Keeper) -> None:
    one = guest(keeper)
    one.ask("fail", why="rank 1 was killed", code=137)
    assert one.ask("fail", why="rank 0 missed it", code=70) == {"why": "rank 1 was killed", "code": 137}


def test_who_is_silent_is_named() -> None:
    keeper = Keeper(LOCAL, [free_port()], KEY, 0.2)
    try:
        with_pulse = guest(keeper)
        with_pulse.ask("beat", rank=3, name="rank 3's process on host c")
        told = until_failed(with_pulse, 3, every=1.0)
        assert "rank 3's process on host c was not heard from for 0.2 s" in told["why"]
    finally:
        keeper.close()
        MADE.pop().close()


def test_the_next_port_is_taken_where_one_is_in_use() -> None:
    with socket.create_server((LOCAL, 0)) as taken:
        first = taken.getsockname()[1]
        keeper = Keeper(LOCAL, [first, free_port()], KEY, PATIENCE_SECONDS)
        assert keeper.address != f"{LOCAL}:{first}"
        keeper.close()
        with pytest.raises(OSError, match="in use"):
            Keeper(LOCAL, [first], KEY, PATIENCE_SECONDS)
